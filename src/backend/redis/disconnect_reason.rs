//! The reason why there is no connection.

use std::fmt;

use fred::error::{Error, ErrorKind};
use thiserror::Error as ThisError;

/// The reason why there is no connection: a part of [`RedisError::Disconnected`](super::RedisError::Disconnected). The
/// [guide](crate::guide::redis#when-redis-fails) says what happens then.
#[derive(Clone, ThisError)]
#[error("{}", .0.details())]
pub struct DisconnectReason(pub(super) Error);

impl DisconnectReason {
    /// Returns whether the server did not answer in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        *self.0.kind() == ErrorKind::Timeout
    }
}

impl fmt::Debug for DisconnectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
