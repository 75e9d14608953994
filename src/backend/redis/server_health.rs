//! The record of whether a server decides.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::Instant,
};

use super::error::{Failure, RedisError};
use crate::backend::ServerId;

/// Remembers the end of the last call to a server.
#[derive(Debug)]
pub(super) struct ServerHealth {
    server: ServerId,
    made_at: Instant,
    /// The time of the server's last decision, in microseconds since the creation of this record; 0 if its last call
    /// has failed.
    decided_at: AtomicU64,
}

impl ServerHealth {
    /// Creates the record of a server with a new number.
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        Self {
            server: ServerId::new(NEXT.fetch_add(1, Ordering::Relaxed).max(1)),
            made_at: Instant::now(),
            decided_at: AtomicU64::new(0),
        }
    }

    pub(super) fn server(&self) -> ServerId {
        self.server
    }

    /// Records the end of a call. A redirection counts as an answer.
    pub(super) fn ended<T>(&self, call: &Result<T, Failure>) {
        let decided_at = match call {
            // It was not sent.
            Err(Failure::Redis(RedisError::TooLarge(_))) => return,
            Err(Failure::Redis(_) | Failure::Unsent(_) | Failure::Partly(_)) => 0,
            _ => self.micros(Instant::now()),
        };
        self.decided_at.store(decided_at, Ordering::Relaxed);
    }

    pub(super) fn has_decided(&self, since: Instant) -> bool {
        self.decided_at.load(Ordering::Relaxed) >= self.micros(since)
    }

    fn micros(&self, at: Instant) -> u64 {
        let micros = at.saturating_duration_since(self.made_at).as_micros();
        u64::try_from(micros).unwrap_or(u64::MAX).max(1)
    }
}
