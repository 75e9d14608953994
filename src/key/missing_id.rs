use std::{
    borrow::Cow,
    sync::atomic::{AtomicBool, Ordering},
};

use http::{HeaderValue, StatusCode};

/// The reason why a request that should have an id has none. The [module](super) has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingId(
    /// Boxed to stay small, because each request reserves space for one.
    Box<MissingIdDetails>,
);

#[derive(Clone, Debug, PartialEq, Eq)]
struct MissingIdDetails {
    status: StatusCode,
    reason: Cow<'static, str>,
    /// The reason for events, without the id, if `reason` quotes the id.
    in_events: Option<Cow<'static, str>>,
    challenge: Option<&'static str>,
    /// Whether clients see the reason.
    is_shown: bool,
}

impl MissingId {
    /// The client has not sent it. The request is refused with 400 and this reason, which should say what to send.
    pub fn client(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::of(StatusCode::BAD_REQUEST, reason.into(), true)
    }

    /// The server is not configured to find it. The request is refused with 500. The reason, which should say what to
    /// change, is logged once.
    pub fn server(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::of(StatusCode::INTERNAL_SERVER_ERROR, reason.into(), false)
    }

    fn of(status: StatusCode, reason: Cow<'static, str>, is_shown: bool) -> Self {
        Self(Box::new(MissingIdDetails {
            status,
            reason,
            in_events: None,
            challenge: None,
            is_shown,
        }))
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
        let _ = HeaderValue::from_static(challenge);
        if self.0.status.is_client_error() {
            self.0.status = StatusCode::UNAUTHORIZED;
            self.0.challenge = Some(challenge);
        }
        self
    }

    /// Uses the reason of `other`, which does not quote the id, in events.
    pub(super) fn with_reason_in_events(mut self, other: Self) -> Self {
        self.0.in_events = Some(other.0.reason);
        self
    }

    /// The server has chosen a limit that it cannot apply. Clients see the reason.
    pub(crate) fn limit(reason: &'static str) -> Self {
        Self::of(StatusCode::INTERNAL_SERVER_ERROR, reason.into(), true)
    }

    /// Returns the reason for clients. They do not see what the server has to change.
    pub(crate) fn reason_for_clients(&self) -> &str {
        if self.0.is_shown {
            self.reason()
        } else {
            "the server cannot identify the client"
        }
    }

    /// Returns the reason, with the remedy.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Returns the reason for events, which does not quote the id.
    pub(crate) fn reason_in_events(&self) -> &str {
        self.0.in_events.as_ref().unwrap_or(&self.0.reason)
    }

    /// Returns the status of a response that refuses the request: 400, 401, or 500 if the server is at fault.
    pub(crate) fn status(&self) -> StatusCode {
        self.0.status
    }

    /// Returns the challenge of a response with status 401.
    pub(crate) fn challenge(&self) -> Option<HeaderValue> {
        self.0.challenge.map(HeaderValue::from_static)
    }

    /// Logs a mistake of the server, once.
    #[cold]
    pub(crate) fn log_once(&self, limit: Option<&str>, consequence: &str, logged: &AtomicBool) {
        if self.status().is_server_error() && !logged.swap(true, Ordering::Relaxed) {
            let reason = self.reason_in_events();
            tracing::error!(
                limit,
                "requests {consequence}, because they have no valid id: {reason}"
            );
        }
    }
}
