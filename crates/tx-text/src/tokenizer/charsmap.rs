//! Check of the normalization table of a SentencePiece model.
//!
//! The library that applies such a table follows its links without checking them: a damaged table
//! would end in a panic. Format: the length in bytes of a double-array trie (32 bits), the trie
//! (units of 32 bits), then the texts that its values point into, each ended by a zero byte.

/// Largest table in bytes. Those of SentencePiece have some 240,000.
const LARGEST: usize = 4 << 20;

/// Largest number of bytes that a table makes of one.
///
/// # Errors
///
/// When a text could lead out of the table, or the table is too large.
pub(super) fn check(table: &[u8]) -> Result<u64, &'static str> {
    if table.len() > LARGEST {
        return Err("it has more than 4 MiB");
    }
    let Some((size, rest)) = table.split_first_chunk::<4>() else {
        return Err("it has no length");
    };
    let size = u32::from_le_bytes(*size) as usize;
    let Some((trie, texts)) = rest.split_at_checked(size / 4 * 4) else {
        return Err("its trie is cut off");
    };
    let Ok(texts) = str::from_utf8(texts) else { return Err("its texts are not UTF-8") };
    let (units, _) = trie.as_chunks::<4>();
    let units: Vec<usize> = units.iter().map(|&unit| u32::from_le_bytes(unit) as usize).collect();
    let offset = |unit: usize| (unit >> 10) << ((unit & (1 << 9)) >> 6);
    let Some(&root) = units.first() else { return Err("its trie is empty") };

    // Every place that a text can lead to, and every byte that UTF-8 can go on with. The children of
    // a place stand within 256 units of it, so a place may lie so far behind the end.
    let mut seen = vec![false; units.len() + 256];
    let mut places = vec![offset(root)];
    while let Some(place) = places.pop() {
        for byte in 1..=0xf4 {
            let Some(&unit) = units.get(place ^ byte) else {
                return Err("its trie leads nowhere");
            };
            if unit & (1 << 31 | 0xff) != byte {
                continue;
            }
            let next = (place ^ byte) ^ offset(unit);
            if unit >> 8 & 1 == 1 {
                let Some(&leaf) = units.get(next) else { return Err("its trie leads nowhere") };
                if !texts.is_char_boundary(leaf & ((1 << 31) - 1)) {
                    return Err("its trie points to no text");
                }
            }
            match seen.get_mut(next) {
                None => return Err("its trie leads nowhere"),
                Some(seen) if *seen => {}
                Some(seen) => {
                    *seen = true;
                    places.push(next);
                }
            }
        }
    }
    let longest = texts.split('\0').map(str::len).max().unwrap_or_default();
    Ok(longest.max(1) as u64)
}
