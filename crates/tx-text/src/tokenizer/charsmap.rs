//! Validation of the normalization table of a SentencePiece model.
//!
//! The library that applies the table follows its links without bounds checks, so a damaged table
//! would cause a panic. Format: the length in bytes of a double-array trie (32 bits), the trie
//! (units of 32 bits), then the texts that its values point into, each ended by a zero byte. Branches
//! of the trie may share their ends, so it is a graph without cycles.

/// Maximum size of a table in bytes. Those of SentencePiece have about 240,000.
const MAX_BYTES: usize = 4 << 20;
/// Maximum length in bytes of the text that a rule replaces. Those of SentencePiece have up to 18.
pub(super) const LONGEST_RULE: usize = 256;

/// Number of bytes that a table writes for one byte of text, at most.
///
/// # Errors
///
/// If a text could lead out of bounds, or a rule or the table is too large.
pub(super) fn check(table: &[u8]) -> Result<u64, &'static str> {
    if table.len() > MAX_BYTES {
        return Err("it has more than 4 MiB");
    }
    let (units, texts) = parts(table)?;
    let ends: Vec<usize> = texts.match_indices('\0').map(|(end, _)| end).collect();
    let length_of = |start: usize| {
        let next = ends.partition_point(|&end| end < start);
        ends.get(next).map_or(texts.len(), |&end| end) - start
    };
    let units: Vec<usize> = units.iter().map(|&unit| unit as usize).collect();
    let offset = |unit: usize| (unit >> 10) << ((unit & (1 << 9)) >> 6);
    let Some(&root) = units.first() else { return Err("its trie is empty") };

    // Visits every position that a text can reach, with every byte that can follow in UTF-8, in the
    // order of the number of bytes that lead to it. The children of a position are within 256 units
    // of it, so a position may be that far beyond the end.
    let mut positions = vec![Position { at: offset(root), depth: 0, longest: 0, parents: 0 }];
    let mut index_at = vec![NOT_SEEN; units.len() + 256];
    let mut links: Vec<Vec<usize>> = Vec::new();
    let mut growth = 1;
    while let Some(&Position { at, depth, .. }) = positions.get(links.len()) {
        let mut next_positions = Vec::new();
        for byte in 1..=0xf4 {
            let Some(&unit) = units.get(at ^ byte) else {
                return Err("its trie leads out of bounds");
            };
            if unit & (1 << 31 | 0xff) != byte {
                continue;
            }
            let next = (at ^ byte) ^ offset(unit);
            if unit >> 8 & 1 == 1 {
                let Some(&leaf) = units.get(next) else {
                    return Err("its trie leads out of bounds");
                };
                let start = leaf & ((1 << 31) - 1);
                if !texts.is_char_boundary(start) {
                    return Err("its trie points outside of its texts");
                }
                growth = growth.max(length_of(start).div_ceil(depth + 1));
            }
            let Some(index) = index_at.get_mut(next) else {
                return Err("its trie leads out of bounds");
            };
            if *index == NOT_SEEN {
                *index = positions.len();
                positions.push(Position { at: next, depth: depth + 1, longest: 0, parents: 0 });
            }
            next_positions.push(*index);
        }
        links.push(next_positions);
    }
    match longest_rule(positions, &links) {
        None => Err("its trie has a cycle"),
        Some(longest) if longest > LONGEST_RULE => Err("it has a rule of more than 256 bytes"),
        Some(_) => Ok(growth as u64),
    }
}

/// Mark of a position that no text has reached yet.
const NOT_SEEN: usize = usize::MAX;

/// Position in a trie that a text can reach.
struct Position {
    at: usize,
    /// Smallest number of bytes that lead to it.
    depth: usize,
    /// Largest number of bytes that lead to it.
    longest: usize,
    /// Number of links that lead to it and have not been followed.
    parents: usize,
}

/// Number of bytes of the longest way through a trie, in topological order; `None` if it has a cycle.
fn longest_rule(mut positions: Vec<Position>, links: &[Vec<usize>]) -> Option<usize> {
    for &next in links.iter().flatten() {
        positions.get_mut(next)?.parents += 1;
    }
    let is_start = |(index, position): (usize, &Position)| (position.parents == 0).then_some(index);
    let mut open: Vec<usize> = positions.iter().enumerate().filter_map(is_start).collect();
    let (mut followed, mut longest) = (0, 0);
    while let Some(index) = open.pop() {
        followed += 1;
        let length = positions.get(index)?.longest;
        longest = longest.max(length);
        for &next in links.get(index)? {
            let position = positions.get_mut(next)?;
            position.longest = position.longest.max(length + 1);
            position.parents -= 1;
            if position.parents == 0 {
                open.push(next);
            }
        }
    }
    (followed == positions.len()).then_some(longest)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Table of a trie with a root and units at the given places, and of one text.
    fn table(units: &[(usize, u32)], text: &str) -> Vec<u8> {
        let mut trie = vec![0_u32; 1024];
        for &(at, unit) in units {
            trie[at] = unit;
        }
        let bytes = trie.iter().flat_map(|unit| unit.to_le_bytes());
        (4 * 1024_u32).to_le_bytes().into_iter().chain(bytes).chain(text.bytes()).collect()
    }

    /// The root at 0 leads with `a` (0x61) from 256 to 256 ^ 0x61, and its offset 0x61 back to 256.
    #[test]
    fn a_cycle_is_refused() {
        let cyclic = [(0, 256 << 10), (256 ^ 0x61, 0x61 | 0x61 << 10)];
        assert_eq!(check(&table(&cyclic, "b\0")), Err("its trie has a cycle"));
    }

    /// `a` has a value (bit 8) at 512, where the unit is the position 0 of the text.
    #[test]
    fn growth_is_that_of_the_rule() {
        let to_512 = (256 ^ 0x61 ^ 512) as u32;
        let units = [(0, 256 << 10), (256 ^ 0x61, 0x61 | 1 << 8 | to_512 << 10), (512, 1 << 31)];
        assert_eq!(check(&table(&units, "bcdef\0a long text of no rule\0")), Ok(5));
        assert_eq!(check(&table(&units, &"x".repeat(9_999))), Ok(9_999));
    }

    /// A chain of 300 positions, each with `a`.
    #[test]
    fn a_long_rule_is_refused() {
        let place = |index: usize| (index + 1) * 256;
        let chain = |length: usize| {
            let mut trie = vec![0_u32; (length + 2) * 256];
            trie[0] = (256 << 10) as u32;
            for index in 0..length {
                let from = place(index) ^ 0x61;
                trie[from] = (0x61 | (from ^ place(index + 1)) << 10) as u32;
            }
            let size = (trie.len() as u32 * 4).to_le_bytes();
            let bytes = trie.iter().flat_map(|unit| unit.to_le_bytes());
            size.into_iter().chain(bytes).collect::<Vec<u8>>()
        };
        assert_eq!(check(&chain(256)), Ok(1));
        assert_eq!(check(&chain(257)), Err("it has a rule of more than 256 bytes"));
    }
}
