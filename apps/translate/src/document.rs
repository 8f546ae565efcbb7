//! Context of the lines of an input: the lines before them in their document.

use tx_text::context;

/// The most recent lines of an input, of which an empty one ends a document.
#[derive(Debug, Default)]
pub struct Document {
    most: usize,
    lines: Vec<String>,
    /// Position in `lines` of the first line of the window.
    first: usize,
}

impl Document {
    /// Creates a document for a model that reads at most `most` lines of context; 0 for none.
    pub fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Returns `true` if the model reads context.
    pub fn has_context(&self) -> bool {
        self.most > 0
    }

    /// Adds the lines of the next window.
    pub fn add(&mut self, window: &[String]) {
        if self.has_context() {
            self.lines.drain(..self.lines.len().saturating_sub(self.most));
            self.first = self.lines.len();
            self.lines.extend_from_slice(window);
        }
    }

    /// Returns the context of a line of the window.
    pub fn before(&self, index: usize) -> &[String] {
        match self.has_context() {
            true => context::before(&self.lines, self.first + index, self.most),
            false => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_change_no_context() {
        let lines = ["a", "b", "", "c", "d", "e", "f"].map(str::to_owned);
        let contexts = |size: usize, most: usize| -> Vec<String> {
            let mut document = Document::new(most);
            let mut found = Vec::new();
            for window in lines.chunks(size) {
                document.add(window);
                found.extend((0..window.len()).map(|index| document.before(index).concat()));
            }
            found
        };
        assert_eq!(contexts(7, 2), ["", "a", "ab", "", "c", "cd", "de"]);
        for size in 1..7 {
            for most in 0..5 {
                assert_eq!(contexts(size, most), contexts(7, most), "{size} {most}");
            }
        }
        assert_eq!(contexts(3, 0), [""; 7]);
    }
}
