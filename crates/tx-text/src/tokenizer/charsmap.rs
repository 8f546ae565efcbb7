//! Validation of the normalization table of a SentencePiece model.
//!
//! The library that applies the table follows its links without bounds checks, so a damaged table
//! would cause a panic. Format: the length in bytes of a double-array trie (32 bits), the trie
//! (units of 32 bits), then the texts that its values point into, each ended by a zero byte.

/// Maximum size of a table in bytes. Those of SentencePiece have about 240,000.
const MAX_BYTES: usize = 4 << 20;

/// Maximum number of bytes that a table writes for one byte of text.
///
/// # Errors
///
/// If a text could lead out of bounds, or the table is too large.
pub(super) fn check(table: &[u8]) -> Result<u64, &'static str> {
    if table.len() > MAX_BYTES {
        return Err("it has more than 4 MiB");
    }
    let (units, texts) = parts(table)?;
    let units: Vec<usize> = units.iter().map(|&unit| unit as usize).collect();
    let offset = |unit: usize| (unit >> 10) << ((unit & (1 << 9)) >> 6);
    let Some(&root) = units.first() else { return Err("its trie is empty") };

    // Visits every position that a text can reach, with every byte that can follow in UTF-8. The
    // children of a position are within 256 units of it, so a position may be that far beyond the
    // end.
    let mut seen = vec![false; units.len() + 256];
    let mut positions = vec![offset(root)];
    while let Some(position) = positions.pop() {
        for byte in 1..=0xf4 {
            let Some(&unit) = units.get(position ^ byte) else {
                return Err("its trie leads out of bounds");
            };
            if unit & (1 << 31 | 0xff) != byte {
                continue;
            }
            let next = (position ^ byte) ^ offset(unit);
            if unit >> 8 & 1 == 1 {
                let Some(&leaf) = units.get(next) else {
                    return Err("its trie leads out of bounds");
                };
                if !texts.is_char_boundary(leaf & ((1 << 31) - 1)) {
                    return Err("its trie points outside of its texts");
                }
            }
            match seen.get_mut(next) {
                None => return Err("its trie leads out of bounds"),
                Some(seen) if *seen => {}
                Some(seen) => {
                    *seen = true;
                    positions.push(next);
                }
            }
        }
    }
    let longest = texts.split('\0').map(str::len).max().unwrap_or_default();
    Ok(longest.max(1) as u64)
}

/// Splits a table into the units of its trie and its texts.
///
/// # Errors
///
/// If it is truncated, or the texts are not UTF-8.
pub(super) fn parts(table: &[u8]) -> Result<(Vec<u32>, &str), &'static str> {
    let Some((size, rest)) = table.split_first_chunk::<4>() else {
        return Err("it has no length");
    };
    let size = u32::from_le_bytes(*size) as usize;
    let Some((trie, texts)) = rest.split_at_checked(size / 4 * 4) else {
        return Err("its trie is truncated");
    };
    let Ok(texts) = str::from_utf8(texts) else { return Err("its texts are not UTF-8") };
    let (units, _) = trie.as_chunks::<4>();
    Ok((units.iter().map(|&unit| u32::from_le_bytes(unit)).collect(), texts))
}
