//! Values of one column of one row group, as text.

use parquet::{
    basic::{ConvertedType, LogicalType, Type},
    column::reader::{ColumnReader, ColumnReaderImpl},
    data_type::{BoolType, ByteArrayType, DataType, Int32Type, Int64Type},
    errors::ParquetError,
    schema::types::ColumnDescriptor,
};

/// Number of rows per batch.
const BATCH_ROWS: usize = 1_024;

/// Content of a column, as far as a side can have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Text,
    Integers {
        is_signed: bool,
    },
    Booleans,
    /// Numbers that are no labels: fractions, dates and times.
    OtherNumbers,
}

impl Content {
    /// Content of `column`; `None` for lists and types without text or numbers.
    pub(super) fn of(column: &ColumnDescriptor) -> Option<Self> {
        if column.max_rep_level() > 0 {
            return None;
        }
        match column.physical_type() {
            Type::BYTE_ARRAY => Some(Self::Text),
            Type::BOOLEAN => Some(Self::Booleans),
            Type::INT32 | Type::INT64 => Some(
                is_signed(column)
                    .map_or(Self::OtherNumbers, |is_signed| Self::Integers { is_signed }),
            ),
            Type::FLOAT | Type::DOUBLE => Some(Self::OtherNumbers),
            Type::INT96 | Type::FIXED_LEN_BYTE_ARRAY => None,
        }
    }
}

/// Whether the integers of a column are signed; `None` if they represent something else, such as dates.
fn is_signed(column: &ColumnDescriptor) -> Option<bool> {
    use ConvertedType as C;
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Integer(integer)), _) => Some(integer.is_signed),
        (None, C::NONE | C::INT_8 | C::INT_16 | C::INT_32 | C::INT_64) => Some(true),
        (None, C::UINT_8 | C::UINT_16 | C::UINT_32 | C::UINT_64) => Some(false),
        _ => None,
    }
}

/// Reason why a value is not returned.
pub(super) enum Problem {
    Library(ParquetError),
    Utf8,
}

/// Column of one row group, whose values become text.
pub(super) enum Column {
    Text(Values<ByteArrayType>),
    Booleans(Values<BoolType>),
    Int32 { values: Values<Int32Type>, is_signed: bool },
    Int64 { values: Values<Int64Type>, is_signed: bool },
}

impl Column {
    /// Opens a column with this content. `present` is the definition level of a present value.
    pub(super) fn open(
        reader: ColumnReader,
        content: Content,
        present: i16,
    ) -> Result<Self, ParquetError> {
        match (reader, content) {
            (ColumnReader::ByteArrayColumnReader(reader), Content::Text) => {
                Ok(Self::Text(Values::new(reader, present)))
            }
            (ColumnReader::BoolColumnReader(reader), Content::Booleans) => {
                Ok(Self::Booleans(Values::new(reader, present)))
            }
            (ColumnReader::Int32ColumnReader(reader), Content::Integers { is_signed }) => {
                Ok(Self::Int32 { values: Values::new(reader, present), is_signed })
            }
            (ColumnReader::Int64ColumnReader(reader), Content::Integers { is_signed }) => {
                Ok(Self::Int64 { values: Values::new(reader, present), is_signed })
            }
            _ => Err(ParquetError::General("a selected column has another type".into())),
        }
    }

    /// Returns the next value as text, empty for null; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<String>, Problem> {
        let text = match self {
            Self::Text(values) => match values.next().map_err(Problem::Library)? {
                Some(Some(value)) => {
                    let text = std::str::from_utf8(value.data()).map_err(|_| Problem::Utf8)?;
                    Some(Some(text.to_owned()))
                }
                Some(None) => Some(None),
                None => None,
            },
            Self::Booleans(values) => values.next_with(|value| value.to_string())?,
            Self::Int32 { values, is_signed: true } => {
                values.next_with(|value| value.to_string())?
            }
            Self::Int64 { values, is_signed: true } => {
                values.next_with(|value| value.to_string())?
            }
            // The bits of a negative number are those of a large unsigned one.
            Self::Int32 { values, is_signed: false } => {
                values.next_with(|value| value.cast_unsigned().to_string())?
            }
            Self::Int64 { values, is_signed: false } => {
                values.next_with(|value| value.cast_unsigned().to_string())?
            }
        };
        Ok(text.map(Option::unwrap_or_default))
    }
}

/// Values of a column, read in batches.
pub(super) struct Values<T: DataType> {
    reader: ColumnReaderImpl<T>,
    /// Definition level of a present value; a lower level means null.
    present: i16,
    levels: Vec<i16>,
    values: std::vec::IntoIter<T::T>,
    at: usize,
}

impl<T: DataType> Values<T> {
    fn new(reader: ColumnReaderImpl<T>, present: i16) -> Self {
        Self { reader, present, levels: Vec::new(), values: Vec::new().into_iter(), at: 0 }
    }

    /// Returns the next value, `Some(None)` for null; `None` at the end.
    fn next(&mut self) -> Result<Option<Option<T::T>>, ParquetError> {
        if self.at == self.levels.len() {
            self.levels.clear();
            self.at = 0;
            let mut values = Vec::new();
            let levels = (self.present > 0).then_some(&mut self.levels);
            let (rows, _, _) = self.reader.read_records(BATCH_ROWS, levels, None, &mut values)?;
            if self.present == 0 {
                self.levels.resize(rows, 0);
            }
            self.values = values.into_iter();
            if self.levels.is_empty() {
                return Ok(None);
            }
        }
        let level = self.levels[self.at];
        self.at += 1;
        if level < self.present {
            return Ok(Some(None));
        }
        match self.values.next() {
            Some(value) => Ok(Some(Some(value))),
            None => Err(ParquetError::General("a column has fewer values than declared".into())),
        }
    }

    /// Returns the next value as `text` writes it.
    fn next_with(
        &mut self,
        text: impl Fn(T::T) -> String,
    ) -> Result<Option<Option<String>>, Problem> {
        let next = self.next().map_err(Problem::Library)?;
        Ok(next.map(|value| value.map(text)))
    }
}
