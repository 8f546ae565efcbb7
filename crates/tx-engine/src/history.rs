//! Slots of the keys and values of a batch that is decoded token by token.

/// Tokens decoded so far, for each row of a batch.
///
/// Keys and values of a token are appended to those of its layer and never move: the history of a
/// row lists the slots that belong to it. So a row is repeated or omitted without copying them.
#[derive(Debug, Clone)]
pub(crate) struct History {
    /// Slot of each token of each row.
    rows: Vec<Vec<u32>>,
    /// Tokens of each row.
    len: usize,
    /// Slots in use.
    used: usize,
}

impl History {
    /// Starts `rows` rows without tokens.
    pub(crate) fn new(rows: usize) -> Self {
        Self { rows: vec![Vec::new(); rows], len: 0, used: 0 }
    }

    /// Tokens of each row.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Position of the newest token; 0 if there is none.
    pub(crate) fn newest(&self) -> usize {
        self.len.saturating_sub(1)
    }

    /// Slots in use.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Number of rows.
    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Slots of each row, by position.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &[u32]> {
        self.rows.iter().map(Vec::as_slice)
    }

    /// Adds a token to each row, in the order of the rows.
    pub(crate) fn push(&mut self) {
        for row in &mut self.rows {
            row.push(self.used as u32);
            self.used += 1;
        }
        self.len += 1;
    }

    /// Replaces row `i` by row `rows[i]` for each `i`.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub(crate) fn select(&mut self, rows: &[usize]) {
        self.rows = rows.iter().map(|&row| self.rows[row].clone()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tokens of two rows, then row 1 twice, then a third token.
    #[test]
    fn rows_share_the_slots_of_their_past() {
        let mut history = History::new(2);
        history.push();
        history.push();
        assert_eq!(history.rows().collect::<Vec<_>>(), [[0, 2], [1, 3]]);
        history.select(&[1, 1]);
        history.push();
        assert_eq!(history.rows().collect::<Vec<_>>(), [[1, 3, 4], [1, 3, 5]]);
        assert_eq!((history.len(), history.newest(), history.used()), (3, 2, 6));
    }
}
