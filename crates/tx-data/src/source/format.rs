//! File formats, detected from content.

use serde::{Deserialize, Serialize};

/// Format of a file with sentence pairs or with one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Format {
    /// Plain text with one sentence per line; each side has its own file.
    Text,
    /// SGML or XML of WMT and IWSLT test sets with one sentence per `<seg>`; each side has its own
    /// file.
    Sgm,
    /// Tab-separated columns without quoting; one pair per line.
    Tsv,
    /// Columns separated by comma, semicolon or tab, with quoting (RFC 4180).
    Csv,
    /// JSON Lines: one JSON object per line.
    Jsonl,
    /// Apache Parquet.
    Parquet,
    /// Translation Memory eXchange.
    Tmx,
}

impl Format {
    /// Names of all formats, for messages.
    pub const NAMES: &str = "text, sgm, tsv, csv, jsonl, parquet or tmx";

    /// Detects the format of a file with both sides.
    ///
    /// # Errors
    ///
    /// If the format is not one with both sides; the error names the detected one.
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
                Err(format!("found `{}` at the start, expected TMX", first_line(start)))
            };
        }
        if start.starts_with('{') {
            return Ok(Self::Jsonl);
        }
        if start.starts_with('[') && start[1..].trim_start().starts_with('{') {
            return Err("found a JSON array, expected one JSON object per line".into());
        }
        // The last line may be incomplete.
        let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).take(50).collect();
        if lines.len() > 1 {
            lines.pop();
        }
        let tabs = lines.iter().filter(|line| line.contains('\t')).count();
        Ok(if 2 * tabs > lines.len() { Self::Tsv } else { Self::Csv })
    }

    /// Detects the format of a file with one side.
    ///
    /// # Errors
    ///
    /// If the format is not one with a single side; the error names the detected one.
    pub(super) fn of_side(head: &[u8]) -> Result<Self, String> {
        if head.starts_with(b"PAR1") {
            return Err("found a Parquet file, expected one sentence per line".into());
        }
        // Lines may have any encoding here; invalid UTF-8 is reported during reading.
        let text = String::from_utf8_lossy(head);
        if text.contains("<tmx") && text.trim_start_matches('\u{feff}').starts_with('<') {
            return Err(
                "found a TMX file, which contains both sides, expected one sentence per line"
                    .into(),
            );
        }
        let segments = text.contains("<seg ") && text.trim_start().starts_with('<');
        Ok(if segments { Self::Sgm } else { Self::Text })
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(40).collect()
}

/// Decodes the beginning of a file as text, ignoring incomplete characters.
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
        return Err("found neither text nor a known format".into());
    }
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}
