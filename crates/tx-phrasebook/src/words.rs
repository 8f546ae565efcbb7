//! Text of a sentence under construction.

/// Words joined by spaces.
#[derive(Debug, Default)]
pub(super) struct Words(String);

impl Words {
    /// Adds a word or phrase after a space, or without a space after an apostrophe. An empty word
    /// adds nothing.
    pub(super) fn push(&mut self, words: &str) -> &mut Self {
        if !words.is_empty() {
            if !self.0.is_empty() && !self.0.ends_with('\'') {
                self.0.push(' ');
            }
            self.0.push_str(words);
        }
        self
    }

    /// Appends to the last word, without space.
    pub(super) fn attach(&mut self, ending: &str) -> &mut Self {
        self.0.push_str(ending);
        self
    }

    /// Returns the words so far.
    pub(super) fn into_phrase(self) -> String {
        self.0
    }

    /// Returns the complete sentence with initial capital and final mark.
    pub(super) fn into_sentence(self, mark: &str) -> String {
        let mut letters = self.0.chars();
        let mut sentence: String =
            letters.next().into_iter().flat_map(char::to_uppercase).collect();
        sentence.push_str(letters.as_str());
        sentence.push_str(mark);
        sentence
    }
}
