//! The servers of a backend that has several.

use std::time::Instant;

use crate::transaction::Member;

/// The servers of a backend that has several, such as the masters of a cluster. Each can fail independently.
///
/// A [`FailurePolicy`](super::FailurePolicy) asks for them, so that the failure of one server affects only the buckets that
/// it holds.
pub trait Servers: Send + Sync {
    /// Returns the server that currently decides the bucket of `member`.
    fn server_of(&self, member: &Member<'_>) -> ServerId;

    /// Returns whether the server has decided something since an instant, and has not failed after that.
    ///
    /// If a batch over several servers fails, the servers for which this is true are not the cause.
    fn has_decided(&self, server: ServerId, since: Instant) -> bool;

    /// Returns whether this is still one of the servers. A server that was replaced is not one any more, and its circuit
    /// breaker is dropped. [`ServerId::UNKNOWN`] is one as long as the server of some buckets is unknown.
    ///
    /// By default, every server is one forever.
    fn is_current(&self, server: ServerId) -> bool {
        let _ = server;
        true
    }

    /// Returns the server's address, for logs.
    fn address(&self, server: ServerId) -> Option<String>;
}

/// One of several servers, returned by [`Servers`]. A server keeps its number for as long as the backend is
/// connected to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerId(u32);

impl ServerId {
    /// An unknown server.
    pub const UNKNOWN: Self = Self(0);

    /// Creates the id of a server, with a number of at least 1.
    ///
    /// ```
    /// use tollgate::backend::ServerId;
    ///
    /// assert_eq!(ServerId::new(2).number(), 2);
    /// assert_eq!(ServerId::UNKNOWN.number(), 0);
    /// ```
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}
