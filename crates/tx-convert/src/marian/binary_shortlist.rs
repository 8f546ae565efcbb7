//! Binary shortlists of Marian, such as `lex.50.50.ende.s2t.bin` of Firefox.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | magic number |
//! | 8 | checksum of the rest |
//! | 8 each | frequent tokens, candidates of a token, offsets, candidates of all tokens |
//! | 8 each | offsets: the start of the candidates of each source token, and the end of the last |
//! | 4 each | candidates |

use tx_infer::Shortlist;
use tx_text::Tokenizers;

use crate::import::RowOrder;

const MAGIC: u64 = 0xF11A_48D5_0134_17F5;
/// Numbers of the header.
const HEADER: usize = 6;

/// Candidates by the ids of a model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BinaryShortlist {
    /// The first so many ids are candidates of every source.
    frequent: u64,
    /// Start of the candidates of each source token, and the end of the last.
    offsets: Vec<usize>,
    candidates: Vec<u32>,
}

/// Returns `true` if a file that starts with these bytes is a shortlist.
pub(crate) fn is_shortlist(start: &[u8]) -> bool {
    start.first_chunk() == Some(&MAGIC.to_le_bytes())
}

impl BinaryShortlist {
    /// Parses a file.
    ///
    /// # Errors
    ///
    /// If it is damaged.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let (numbers, _) = bytes.as_chunks::<8>();
        let mut numbers = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let header: Vec<u64> = numbers.by_ref().take(HEADER).collect();
        let &[MAGIC, checksum, frequent, _, offsets, candidates] = header.as_slice() else {
            return Err("it is not a shortlist of Marian".to_owned());
        };
        let size = |count: u64, width: u64| usize::try_from(count.checked_mul(width)?).ok();
        let sizes = size(offsets, 8).zip(size(candidates, 4));
        let end = sizes.and_then(|(offsets, candidates)| {
            (8 * HEADER).checked_add(offsets)?.checked_add(candidates)
        });
        let (Some((table, _)), true) = (sizes, end == Some(bytes.len())) else {
            return Err(format!("it has {} bytes, which are not those of its lists", bytes.len()));
        };
        if hash(bytes.get(16..).unwrap_or_default()) != checksum {
            return Err("its checksum is wrong".to_owned());
        }
        let offsets: Option<Vec<usize>> =
            numbers.take(table / 8).map(|offset| usize::try_from(offset).ok()).collect();
        let (words, _) = bytes.get(8 * HEADER + table..).unwrap_or_default().as_chunks();
        let candidates: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let offsets = offsets.filter(|offsets| {
            offsets.is_sorted() && offsets.last().is_none_or(|&last| last <= candidates.len())
        });
        let offsets = offsets.ok_or("its offsets do not ascend to the number of candidates")?;
        Ok(Self { frequent, offsets, candidates })
    }

    /// Converts ids of the model, whose rows are in the `orders` of source and target in the bundle. With
    /// a `shared` vocabulary, a source token is a candidate itself.
    pub(crate) fn convert(
        &self,
        [source, target]: &[RowOrder; 2],
        shared: bool,
        tokenizers: &Tokenizers,
    ) -> Shortlist {
        let rows = target.iter().flatten().max().map_or(0, |&last| last as usize + 1);
        let mut ids = vec![None; rows];
        for (id, row) in (0..).zip(target.iter()) {
            if let Some(place) = row.and_then(|row| ids.get_mut(row as usize)) {
                *place = Some(id);
            }
        }
        let of_row = |row: u32| ids.get(row as usize).copied().flatten();
        let frequent = usize::try_from(self.frequent).unwrap_or(rows).min(rows);
        let frequent = ids.get(..frequent).unwrap_or_default().iter().flatten().copied();
        let candidates = source.iter().map(|row| {
            let Some(row) = *row else { return Vec::new() };
            let bounds = self.offsets.get(row as usize).zip(self.offsets.get(row as usize + 1));
            let list = bounds.and_then(|(&start, &end)| self.candidates.get(start..end));
            let own = shared.then_some(row);
            list.unwrap_or_default().iter().copied().chain(own).filter_map(of_row).collect()
        });
        Shortlist::new(tokenizers, frequent.collect(), candidates)
    }
}

/// Hash of 64-bit numbers by the formula of `boost::hash_combine`, as Marian computes it.
fn hash(bytes: &[u8]) -> u64 {
    let (numbers, _) = bytes.as_chunks();
    numbers.iter().fold(0_u64, |seed, bytes| {
        let mixed = u64::from_le_bytes(*bytes)
            .wrapping_add(0x9e37_79b9)
            .wrapping_add(seed << 6)
            .wrapping_add(seed >> 2);
        seed ^ mixed
    })
}
