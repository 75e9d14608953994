use std::borrow::Cow;

use http::{HeaderValue, StatusCode};

use crate::id::Id;

/// The result of a [`KeyExtractor`](super::KeyExtractor). Its [module](super) has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extracted {
    /// The id of the client. An empty id counts as missing.
    Id(Id),
    /// The rule does not apply to this request.
    Skip,
    /// The request should have an id, but has none.
    Missing(MissingId),
}

impl<T: Into<Id>> From<T> for Extracted {
    fn from(id: T) -> Self {
        Self::Id(id.into())
    }
}

impl<T: Into<Id>> From<Option<T>> for Extracted {
    /// `None` skips the rule.
    fn from(id: Option<T>) -> Self {
        id.map_or(Self::Skip, |id| Self::Id(id.into()))
    }
}

/// The reason why a request has no id although it should have one. The [module](super) has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingId {
    fault: Fault,
    reason: Cow<'static, str>,
    challenge: Option<HeaderValue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Client,
    Server,
    /// The server's too: a rule has chosen a limit that it does not have.
    UnknownLimit,
}

impl MissingId {
    /// The client has not sent it. The request is refused with 400 and this reason, which should say what to send.
    pub fn client(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Fault::Client, reason.into())
    }

    /// Refuses with 401 instead of 400, or with `UNAUTHENTICATED` over gRPC. The challenge tells the client how to
    /// authenticate, and becomes the response's `WWW-Authenticate` (RFC 9110, section 11.6.1). It has no effect on
    /// mistakes of the server.
    ///
    /// ```
    /// use tollgate::key::MissingId;
    ///
    /// let missing = MissingId::client("send your API key as a bearer token").unauthorized("Bearer");
    /// # let _ = missing;
    /// ```
    ///
    /// # Panics
    ///
    /// If the challenge is not visible ASCII.
    #[must_use]
    #[track_caller]
    pub fn unauthorized(mut self, challenge: &'static str) -> Self {
        self.challenge = Some(HeaderValue::from_static(challenge));
        self
    }

    /// The server is not configured to find it. The request is refused with 500. The reason, which should say what to
    /// change, is logged once.
    pub fn server(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Fault::Server, reason.into())
    }

    /// A rule has chosen a limit that it does not have, so the client is known and its limit is not.
    pub(crate) fn unknown_limit(reason: String) -> Self {
        Self::of(Fault::UnknownLimit, reason.into())
    }

    fn of(fault: Fault, reason: Cow<'static, str>) -> Self {
        let challenge = None;
        Self {
            fault,
            reason,
            challenge,
        }
    }

    /// Returns whether the limit is missing, and not the id.
    pub(crate) fn is_unknown_limit(&self) -> bool {
        self.fault == Fault::UnknownLimit
    }

    /// Returns the reason, with the remedy.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns whether the server is at fault, not the client.
    #[must_use]
    pub fn is_servers_fault(&self) -> bool {
        self.fault != Fault::Client
    }

    /// The status of a response that refuses the request: 400, 401 or 500.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match (self.fault, &self.challenge) {
            (Fault::Server | Fault::UnknownLimit, _) => StatusCode::INTERNAL_SERVER_ERROR,
            (Fault::Client, Some(_)) => StatusCode::UNAUTHORIZED,
            (Fault::Client, None) => StatusCode::BAD_REQUEST,
        }
    }

    /// Returns the challenge of a response with status 401.
    pub(crate) fn challenge(&self) -> Option<&HeaderValue> {
        let challenge = self.challenge.as_ref();
        challenge.filter(|_| self.fault == Fault::Client)
    }
}
