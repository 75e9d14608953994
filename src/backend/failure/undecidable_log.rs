use std::{
    collections::HashMap,
    error::Error,
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// The time after which the same reason is logged again.
const AGAIN: Duration = Duration::from_secs(600);

/// The most reasons that are logged in that time.
const MOST: usize = 32;

/// Logs batches that the store cannot decide, each reason once in ten minutes. A client can send such requests as often
/// as it likes, so the number of lines is bounded.
#[derive(Debug, Default)]
pub(super) struct UndecidableLog {
    keys: RandomState,
    logged: Mutex<HashMap<u64, Instant>>,
}

impl UndecidableLog {
    #[cold]
    pub(super) fn write(&self, reason: &(dyn Error + 'static)) {
        if self.is_due(&reason.to_string()) {
            tracing::warn!(
                error = %reason,
                "the rate limit store cannot decide a bucket: this one is decided without it"
            );
        }
    }

    fn is_due(&self, reason: &str) -> bool {
        let (reason, now) = (self.keys.hash_one(reason), Instant::now());
        let mut logged = self.logged.lock();
        logged.retain(|_, at| now.duration_since(*at) < AGAIN);
        let is_due = logged.len() < MOST && !logged.contains_key(&reason);
        if is_due {
            logged.insert(reason, now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_reason_is_logged_once_in_ten_minutes_and_few_at_all() {
        let log = UndecidableLog::default();
        assert!(log.is_due("a") && log.is_due("b"));
        assert!(!log.is_due("a") && !log.is_due("b"));
        let others = (0..1000).filter(|n| log.is_due(&n.to_string()));
        assert_eq!(others.count(), MOST - 2);
        tokio::time::advance(AGAIN).await;
        assert!(log.is_due("a"));
    }
}
