//! Errors about arguments that contradict each other or do not fit the model: exit code 2.

/// Wrong usage that is found after the arguments have been parsed.
#[derive(Debug)]
pub struct Usage {
    problem: String,
    hint: Option<String>,
}

impl Usage {
    /// Describes the problem, with the value found and the values accepted.
    pub fn new(problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), hint: None }
    }

    /// Adds a hint about the next step.
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Returns the hint about the next step, if one is known.
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

/// Converts the number of a layer or head, from 1 to `count`, to an index from 0.
///
/// # Errors
///
/// If the number is out of range.
pub fn numbered(option: &str, wanted: usize, count: usize) -> Result<usize, Usage> {
    match wanted.checked_sub(1).filter(|index| *index < count) {
        Some(index) => Ok(index),
        None => {
            Err(Usage::new(format!("`{option}` = {wanted} must be at least 1 and at most {count}")))
        }
    }
}
