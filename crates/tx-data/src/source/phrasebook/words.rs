//! Joins words to a sentence.

/// A sentence in the making.
#[derive(Debug, Default)]
pub(super) struct Words(String);

impl Words {
    /// Adds a word or phrase: behind a space, unless what stands there ends in an apostrophe.
    /// Nothing is added for an empty word.
    pub(super) fn push(&mut self, words: &str) -> &mut Self {
        if !words.is_empty() {
            if !self.0.is_empty() && !self.0.ends_with('\'') {
                self.0.push(' ');
            }
            self.0.push_str(words);
        }
        self
    }

    /// Adds to the last word, without space.
    pub(super) fn attach(&mut self, ending: &str) -> &mut Self {
        self.0.push_str(ending);
        self
    }

    /// The words so far.
    pub(super) fn into_phrase(self) -> String {
        self.0
    }

    /// The whole sentence: capital in front, mark behind.
    pub(super) fn into_sentence(self, mark: &str) -> String {
        let mut letters = self.0.chars();
        let mut sentence: String =
            letters.next().into_iter().flat_map(char::to_uppercase).collect();
        sentence.push_str(letters.as_str());
        sentence.push_str(mark);
        sentence
    }
}
