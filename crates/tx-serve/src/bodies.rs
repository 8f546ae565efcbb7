//! Memory of the bodies of requests in progress.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::error::ApiError;

/// Bytes of a body that are not counted: large bodies cannot keep the small ones out, and the number of
/// connections limits these.
const FREE: usize = 16 << 10;

/// Number of bodies of the maximum size that the server holds at once.
const WHOLE: usize = 64;

/// Number of bodies of the maximum size whose clients have not shown a key yet, although one is needed.
const UNVERIFIED: usize = 16;

/// Budgets of the bytes of bodies, counted as they arrive.
#[derive(Debug)]
pub struct Bodies {
    all: Arc<Budget>,
    unverified: Arc<Budget>,
}

#[derive(Debug)]
struct Budget {
    held: AtomicUsize,
    max: usize,
}

/// Bytes of one body, which are released with it.
#[derive(Debug)]
pub struct Held {
    budget: Arc<Budget>,
    received: usize,
}

impl Bodies {
    /// Creates budgets for bodies with at most `body` bytes each.
    pub fn new(body: usize) -> Self {
        let budget = |count: usize| {
            Arc::new(Budget { held: AtomicUsize::new(0), max: body.saturating_mul(count) })
        };
        Self { all: budget(WHOLE), unverified: budget(UNVERIFIED) }
    }

    /// Starts a body. `is_verified` if its client has shown a key, or needs none.
    pub fn start(&self, is_verified: bool) -> Held {
        let budget = if is_verified { &self.all } else { &self.unverified };
        Held { budget: budget.clone(), received: 0 }
    }
}

impl Held {
    /// Adds received bytes.
    ///
    /// # Errors
    ///
    /// [`ApiError::Bodies`] if the bodies of all requests take too much memory.
    pub fn add(&mut self, bytes: usize) -> Result<(), ApiError> {
        let counted = |received: usize| received.saturating_sub(FREE);
        let received = self.received.saturating_add(bytes);
        let more = counted(received) - counted(self.received);
        let before = self.budget.held.fetch_add(more, Ordering::SeqCst);
        self.received = received;
        if more > 0 && before.saturating_add(more) > self.budget.max {
            return Err(ApiError::Bodies);
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.received.saturating_sub(FREE), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_are_limited_together_and_small_ones_are_not() {
        let bodies = Bodies::new(1 << 20);
        let whole = (1 << 20) + FREE;
        let mut held: Vec<Held> = (0..UNVERIFIED).map(|_| bodies.start(false)).collect();
        for body in &mut held {
            assert_eq!((body.add(FREE), body.add(whole - FREE)), (Ok(()), Ok(())));
        }
        let refuse = |is_verified| bodies.start(is_verified).add(whole);
        assert_eq!(refuse(false), Err(ApiError::Bodies));
        assert_eq!(refuse(true), Ok(()));
        assert_eq!(bodies.start(false).add(FREE), Ok(()));
        held.pop();
        assert_eq!(refuse(false), Ok(()));
        drop(held);
        assert_eq!(bodies.unverified.held.load(Ordering::SeqCst), 0);
    }
}
