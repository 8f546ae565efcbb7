//! Limits of requests and characters per minute.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Owner of a limit: an address or the name of a key.
pub type Owner = String;

/// Buckets of tokens, one for each owner and unit.
#[derive(Debug, Default)]
pub struct Limiter {
    buckets: Mutex<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    all: HashMap<(Owner, Unit), Bucket>,
    /// Number of buckets after full ones were removed.
    cleaned: usize,
}

/// Unit of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Requests.
    Requests,
    /// Characters.
    Characters,
    /// Requests with a wrong key, or without one that is needed.
    Refusals,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    size: f64,
    level: f64,
    updated: Instant,
}

/// Number of owners from which on full buckets are removed.
const MANY: usize = 10_000;

impl Limiter {
    /// Takes `amount` from the budget of an owner, which is `per_minute` and grows back evenly.
    ///
    /// An amount that is larger than the whole budget is accepted when the budget is full, and then
    /// delays later requests.
    ///
    /// # Errors
    ///
    /// The time after which the amount is available.
    pub fn take(
        &self,
        owner: &str,
        unit: Unit,
        amount: usize,
        per_minute: u32,
        now: Instant,
    ) -> Result<(), Duration> {
        let size = f64::from(per_minute.max(1));
        let rate = size / 60.0;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let Buckets { all, cleaned } = &mut *buckets;
        // Twice as many as before, so that the cost of a request does not depend on the number of owners.
        if all.len() >= MANY.max(2 * *cleaned) {
            all.retain(|_, bucket| bucket.level_at(now) < bucket.size);
            *cleaned = all.len();
        }
        let bucket = all.entry((owner.to_owned(), unit)).or_insert(Bucket {
            size,
            level: size,
            updated: now,
        });
        bucket.size = size;
        bucket.level = bucket.level_at(now);
        bucket.updated = now;
        let needed = (amount as f64).min(size);
        if bucket.level + 1e-9 < needed {
            return Err(Duration::from_secs_f64((needed - bucket.level) / rate));
        }
        bucket.level -= amount as f64;
        Ok(())
    }
}

impl Bucket {
    /// Level after the time since the last request.
    fn level_at(&self, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.updated).as_secs_f64();
        (self.level + elapsed * self.size / 60.0).min(self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_buckets_of_many_owners_are_removed() {
        let (limiter, start) = (Limiter::default(), Instant::now());
        for number in 0..30_000_u64 {
            // A budget of 60 grows back in a second.
            let now = start + Duration::from_millis(number);
            limiter.take(&number.to_string(), Unit::Requests, 1, 60, now).unwrap();
        }
        let buckets = limiter.buckets.lock().unwrap();
        assert!((1_000..=MANY).contains(&buckets.all.len()), "{}", buckets.all.len());
    }

    #[test]
    fn budgets_are_separate_and_grow_back() {
        let (limiter, start) = (Limiter::default(), Instant::now());
        let take = |owner: &str, amount, seconds| {
            let now = start + Duration::from_secs(seconds);
            limiter.take(owner, Unit::Characters, amount, 60, now)
        };
        assert_eq!(take("a", 50, 0), Ok(()));
        assert_eq!(take("a", 20, 0), Err(Duration::from_secs(10)));
        assert_eq!(take("b", 60, 0), Ok(()));
        assert_eq!(take("a", 20, 10), Ok(()));
        // A text longer than the budget is accepted once a minute at most.
        assert_eq!(take("c", 600, 0), Ok(()));
        assert!(take("c", 1, 60).is_err() && take("c", 1, 542).is_ok());
    }
}
