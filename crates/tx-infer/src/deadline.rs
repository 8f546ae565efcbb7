//! Time limit of a request, which work that blocks checks.

use std::time::{Duration, Instant};

use crate::cancellation::Cancellation;

/// End of the time of a request, and a flag that is set when its client leaves.
///
/// A thread that blocks cannot be interrupted. Loops over input of a client (paragraphs, sentences,
/// elements) call [`check`](Self::check), so that they end when nobody waits for their result.
#[derive(Debug, Clone)]
pub struct Deadline {
    end: Instant,
    limit: Duration,
    left: Cancellation,
}

/// The time of a request is over, or nobody waits for its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request took longer than {} s", .0.as_secs_f64())]
pub struct Overdue(pub Duration);

/// Guard of a client: dropping it, as the end of its connection does, sets the flag of its
/// [`Deadline`].
#[derive(Debug)]
pub struct Waiting(Cancellation);

/// Longest time limit, which no clock exceeds.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Deadline {
    /// Creates the deadline of a request that starts now.
    pub fn after(limit: Duration) -> Self {
        let now = Instant::now();
        Self { end: now + limit.min(LONGEST), limit, left: Cancellation::new() }
    }

    /// Returns a deadline with the same time from now on, for the next part of a long request. It ends
    /// with the same client.
    pub fn renewed(&self) -> Self {
        Self { left: self.left.clone(), ..Self::after(self.limit) }
    }

    /// Returns the guard of the client that waits.
    pub fn waiting(&self) -> Waiting {
        Waiting(self.left.clone())
    }

    /// Returns a flag that is set when the time is over or the client leaves.
    pub fn cancellation(&self) -> Cancellation {
        self.left.child().until(self.end)
    }

    /// Tests whether somebody still waits for the result.
    ///
    /// # Errors
    ///
    /// If the time is over, or the client has left, who then does not see it.
    pub fn check(&self) -> Result<(), Overdue> {
        if self.is_over() { Err(self.error()) } else { Ok(()) }
    }

    /// Whether the time is over, or the client has left.
    pub fn is_over(&self) -> bool {
        self.left.is_cancelled() || self.end <= Instant::now()
    }

    /// The error of a request whose time is over.
    pub fn error(&self) -> Overdue {
        Overdue(self.limit)
    }

    /// Time at which nobody waits any longer.
    pub fn end(&self) -> Instant {
        self.end
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_end_with_their_time_or_their_client() {
        let long = Deadline::after(Duration::MAX);
        assert_eq!(long.check(), Ok(()));
        let seen = long.clone();
        let waiting = long.waiting();
        assert!(!seen.is_over());
        let renewed = long.renewed();
        drop(waiting);
        assert!(seen.is_over() && renewed.is_over() && long.check().is_err());
        assert!(seen.cancellation().is_cancelled());

        let short = Deadline::after(Duration::from_millis(500));
        let cancellation = short.cancellation();
        std::thread::sleep(Duration::from_millis(501));
        assert!(short.is_over() && cancellation.is_cancelled() && !short.renewed().is_over());
        assert_eq!(short.check().unwrap_err().to_string(), "the request took longer than 0.5 s");
    }
}
