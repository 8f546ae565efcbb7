//! What kind of file it is, told by what stands in it.

use serde::{Deserialize, Serialize};

/// How pairs, or sentences, are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Format {
    /// A sentence a line; each side has a file.
    Text,
    /// SGML or XML as WMT and IWSLT publish test sets: a sentence a `<seg>`; each side has a file.
    Sgm,
    /// Tab-separated columns, without quotes: one pair a line.
    Tsv,
    /// Columns separated by comma, semicolon or tab, with quotes (RFC 4180).
    Csv,
    /// A JSON object a line.
    Jsonl,
    /// Apache Parquet.
    Parquet,
    /// Translation Memory eXchange.
    Tmx,
}

impl Format {
    /// All of them, as they are named.
    pub const NAMES: &str = "text, sgm, tsv, csv, jsonl, parquet or tmx";

    /// Tells the format of a file that holds both sides.
    ///
    /// # Errors
    ///
    /// With what it seems to be instead.
    pub(super) fn of_pairs(head: &[u8]) -> Result<Self, String> {
        if head.starts_with(b"PAR1") {
            return Ok(Self::Parquet);
        }
        let text = text(head)?;
        let start = text.trim_start();
        if start.starts_with('<') {
            return if text.contains("<tmx") {
                Ok(Self::Tmx)
            } else {
                Err(format!("it begins with `{}`, but is no TMX", first_line(start)))
            };
        }
        if start.starts_with('{') {
            return Ok(Self::Jsonl);
        }
        if start.starts_with('[') && start[1..].trim_start().starts_with('{') {
            return Err("it is one JSON array: expected a JSON object on each line".into());
        }
        // The last line may be cut off.
        let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).take(50).collect();
        if lines.len() > 1 {
            lines.pop();
        }
        let tabs = lines.iter().filter(|line| line.contains('\t')).count();
        Ok(if 2 * tabs > lines.len() { Self::Tsv } else { Self::Csv })
    }

    /// Tells the format of a file that holds one side.
    ///
    /// # Errors
    ///
    /// With what it seems to be instead.
    pub(super) fn of_side(head: &[u8]) -> Result<Self, String> {
        if head.starts_with(b"PAR1") {
            return Err("it is a Parquet file: expected a sentence a line".into());
        }
        // Lines may be in any encoding here; those that are not UTF-8 are named when read.
        let text = String::from_utf8_lossy(head);
        if text.contains("<tmx") && text.trim_start_matches('\u{feff}').starts_with('<') {
            return Err(
                "it is a TMX file, which holds both sides: expected a sentence a line".into()
            );
        }
        let segments = text.contains("<seg ") && text.trim_start().starts_with('<');
        Ok(if segments { Self::Sgm } else { Self::Text })
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(40).collect()
}

/// The text at the beginning of a file, as far as it is whole.
fn text(head: &[u8]) -> Result<String, String> {
    let utf16 = |unit: fn([u8; 2]) -> u16| {
        let units = head.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        char::decode_utf16(units).filter_map(Result::ok).collect::<String>()
    };
    let text = match head {
        [0xff, 0xfe, ..] => utf16(u16::from_le_bytes),
        [0xfe, 0xff, ..] => utf16(u16::from_be_bytes),
        _ => String::from_utf8_lossy(head).into_owned(),
    };
    if text.contains('\0') {
        return Err("it is neither text nor a format that is known".into());
    }
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}
