//! Arguments that are wrong together, or wrong for this model: exit code 2.

/// Wrong usage that only shows once the arguments are parsed.
#[derive(Debug)]
pub struct Usage {
    problem: String,
    hint: Option<String>,
}

impl Usage {
    /// What is wrong, with what was found and what is allowed.
    pub fn new(problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), hint: None }
    }

    /// And what to try.
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// What to try.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Usage {}

/// A layer or head as people count, from 1, among `count`; from 0 in what follows.
pub fn numbered(option: &str, wanted: usize, count: usize) -> Result<usize, Usage> {
    match wanted.checked_sub(1).filter(|index| *index < count) {
        Some(index) => Ok(index),
        None => {
            Err(Usage::new(format!("`{option}` = {wanted} must be at least 1 and at most {count}")))
        }
    }
}
