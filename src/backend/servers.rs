//! Which of several servers decides a bucket.

use std::time::Instant;

use crate::transaction::Member;

/// The servers of a backend that has several, each of which may fail on its own: the masters of a cluster.
///
/// A [`FailurePolicy`](super::FailurePolicy) asks for them, so that the failure of one server affects only the buckets that
/// it holds.
pub trait Servers: Send + Sync {
    /// The server that decides the bucket of `member` at present.
    fn server_of(&self, member: &Member<'_>) -> ServerId;

    /// Whether the server has decided something since an instant, and has not failed after that.
    ///
    /// If a batch over several servers fails, this tells which of them are not the reason.
    fn has_decided(&self, server: ServerId, since: Instant) -> bool;

    /// The server's address, for logs.
    fn address(&self, server: ServerId) -> Option<String>;
}

/// One of several servers, as an implementation of [`Servers`] returns it. A server keeps its number as long as the backend is
/// connected to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerId(u32);

impl ServerId {
    /// A server that is not known yet.
    pub const UNKNOWN: Self = Self(0);

    /// The server of a number from 1 up.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}
