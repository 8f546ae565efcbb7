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

use crate::rows::RowOrder;

const MAGIC: u64 = 0xF11A_48D5_0134_17F5;
/// Numbers of the header.
const HEADER: usize = 6;
/// Maximum number of candidates of all source tokens of a bundle.
const MAX_CANDIDATES: usize = 1 << 26;

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

    /// Candidates of the source token of a row.
    fn list(&self, row: u32) -> &[u32] {
        let bounds = self.offsets.get(row as usize).zip(self.offsets.get(row as usize + 1));
        bounds.and_then(|(&start, &end)| self.candidates.get(start..end)).unwrap_or_default()
    }

    /// Converts ids of the model, whose rows are in the `orders` of source and target in the bundle. With
    /// a `shared` vocabulary, a source token is a candidate itself. Source tokens with the same row have the
    /// same list.
    ///
    /// # Errors
    ///
    /// If the lists of all source tokens are too long.
    pub(crate) fn convert(
        &self,
        [source, target]: &[RowOrder; 2],
        shared: bool,
        tokenizers: &Tokenizers,
    ) -> Result<Shortlist, String> {
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
        let lists = || source.iter().map(|row| row.map_or(&[][..], |row| self.list(row)));
        let count = lists().map(<[u32]>::len).fold(0_usize, usize::saturating_add);
        if count > MAX_CANDIDATES {
            return Err(format!(
                "its lists would have {count} candidates, at most {MAX_CANDIDATES}"
            ));
        }
        let candidates = lists().zip(source.iter()).map(|(list, row)| {
            let own = row.filter(|_| shared);
            list.iter().copied().chain(own).filter_map(of_row).collect()
        });
        Ok(Shortlist::new(tokenizers, frequent.collect(), candidates))
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tx_infer::Bundle;

    use super::*;

    /// 2^14 candidates of one row for 2^12 source tokens are the limit, 2^26.
    #[test]
    fn lists_of_many_tokens_with_one_row_are_bounded() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
        let tokenizers = Bundle::open(fixtures.join("bundle-v1")).unwrap().tokenizers;
        let candidates = vec![5; 1 << 14];
        let lists = BinaryShortlist { frequent: 0, offsets: vec![0, 1 << 14], candidates };
        let target: RowOrder = (0..8).map(Some).collect();
        let convert = |sources: usize| {
            let source: RowOrder = vec![Some(0); sources].into();
            lists.convert(&[source, target.clone()], false, &tokenizers)
        };
        assert!(convert(1 << 12).is_ok());
        let problem = convert((1 << 12) + 1).unwrap_err();
        assert_eq!(problem, "its lists would have 67125248 candidates, at most 67108864");
    }
}
