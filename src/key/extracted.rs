use std::borrow::Cow;

use crate::id::Id;

/// What a [`KeyExtractor`](super::KeyExtractor) found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extracted {
    /// The request is from this client. An empty id is a missing one.
    Id(Id),
    /// The rule is not for this request.
    Skip,
    /// The request should have an id, and has none.
    Missing(Missing),
}

impl<T: Into<Id>> From<T> for Extracted {
    fn from(id: T) -> Self {
        Self::Id(id.into())
    }
}

impl<T: Into<Id>> From<Option<T>> for Extracted {
    /// Without an id, the rule is skipped.
    fn from(id: Option<T>) -> Self {
        id.map_or(Self::Skip, |id| Self::Id(id.into()))
    }
}

/// Why a request that should have an id has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    fault: Fault,
    reason: Cow<'static, str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Client,
    Server,
}

impl Missing {
    /// The client left it out. Refused with 400 and this reason, which says what to send.
    pub fn client(reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            fault: Fault::Client,
            reason: reason.into(),
        }
    }

    /// The server is not set up to know it. Refused with 500; this reason, which says what to
    /// change, is logged once.
    pub fn server(reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            fault: Fault::Server,
            reason: reason.into(),
        }
    }

    /// What to change.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether it is the server that has to be changed.
    #[must_use]
    pub fn is_servers_fault(&self) -> bool {
        self.fault == Fault::Server
    }
}
