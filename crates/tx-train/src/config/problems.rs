//! Problems of a section of a configuration.

/// Problems, one for each rule that a section breaks.
#[derive(Debug, Default)]
pub(super) struct Problems(pub Vec<String>);

impl Problems {
    /// Adds a problem unless its rule `holds`.
    pub fn require(&mut self, holds: bool, problem: impl FnOnce() -> String) {
        if !holds {
            self.0.push(problem());
        }
    }
}
