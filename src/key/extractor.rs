use std::{
    borrow::Cow,
    sync::atomic::{AtomicBool, Ordering},
};

use http::{HeaderValue, StatusCode, request::Parts};

use super::combined::{OrElse, Prefixed};
use crate::id::{Id, IdError, IdFormat};

/// Finds the id of the client that sent a request, in the head of the request.
///
/// It runs for every request, before anything else. It should neither block nor do much work, and must not panic,
/// whatever the request contains.
///
/// The [module docs](super) list the extractors of this crate, and show how to write one. A closure that returns an `Option` of an
/// id or a text is an extractor, if the type of its argument is written out.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not extract the id of a client",
    note = "a closure does: `|parts: &http::request::Parts| -> Option<String> {{ .. }}`",
    note = "see `tollgate::key` for ready ones, such as `ClientIp::peer()`"
)]
pub trait KeyExtractor: Send + Sync + 'static {
    /// Extracts the id from a request's head. `None` skips the rule.
    ///
    /// # Errors
    ///
    /// If the request should have an id, and has none.
    fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId>;

    /// Extracts the id in its canonical form in the format of a limit.
    ///
    /// # Errors
    ///
    /// As [`extract`](Self::extract), and if the id is not in the format.
    fn extract_as(&self, parts: &Parts, format: IdFormat) -> Result<Option<Id>, MissingId> {
        let Some(id) = self.extract(parts)? else {
            return Ok(None);
        };
        let folded = format.fold_id(id).map(Some);
        folded.map_err(|error| {
            let mut missing = self.invalid(&error);
            let in_events = self.invalid(&error.secret_if(true));
            missing.0.in_events = Some(in_events.0.reason);
            missing
        })
    }

    /// Returns why a request has no id whose id is not in the limit's format. By default, that is the client's mistake.
    fn invalid(&self, error: &IdError) -> MissingId {
        MissingId::client(error.to_string())
    }

    /// Returns whether the ids can have a format. A rule whose limit has another format is an error at startup, because it would
    /// refuse every request. By default, they can have any, but those of [`IdSource::Shared`] are opaque.
    fn fits(&self, format: IdFormat) -> bool {
        format == IdFormat::Opaque || self.source() != IdSource::Shared
    }

    /// Returns where the ids come from. The layer looks for mistakes in its configuration with it.
    fn source(&self) -> IdSource {
        IdSource::Unknown
    }

    /// Uses `other` if this extractor finds no id that is valid in the limit's format: if the id is absent, empty, sent twice, too
    /// long or malformed.
    ///
    /// Both kinds of ids share one limit and its buckets, so a value that clients choose needs a [prefix](Self::prefix). For two
    /// limits, use [`Rule::or_else`](crate::Rule::or_else). In a longer chain, the last extractor decides what happens if there is
    /// no id. A limit whose format one of the two cannot produce is an error at startup.
    ///
    /// ```
    /// use tollgate::{ClientIp, Rule, key::{HeaderId, KeyExtractor}};
    ///
    /// // The account that a gateway has authenticated, else the address.
    /// let account = HeaderId::new("x-account").prefix("account:");
    /// let rule = Rule::new("requests", account.or_else(ClientIp::peer()));
    /// # let _ = rule;
    /// ```
    #[must_use]
    fn or_else(self, other: impl KeyExtractor) -> impl KeyExtractor
    where
        Self: Sized,
    {
        OrElse {
            first: self,
            other,
            logged: AtomicBool::default(),
        }
    }

    /// Writes a text before each id, so that the ids of several extractors differ: with `account:`, the id `192.0.2.1` becomes
    /// `account:192.0.2.1`, and cannot be the address of another client. Overrides then name the whole id. Only opaque ids can have
    /// a prefix.
    #[must_use]
    fn prefix(self, prefix: &'static str) -> impl KeyExtractor
    where
        Self: Sized,
    {
        Prefixed {
            extractor: self,
            prefix,
        }
    }
}

impl<F, I> KeyExtractor for F
where
    F: Fn(&Parts) -> Option<I> + Send + Sync + 'static,
    I: Into<Id>,
{
    fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId> {
        Ok(self(parts).map(Into::into))
    }
}

/// The source of the ids of a [`KeyExtractor`]. Of several extractors in one, the source that comes last here counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum IdSource {
    /// All requests share one id, or a few, on purpose.
    Shared,
    /// Unknown.
    #[default]
    Unknown,
    /// A value that clients can choose, such as a header.
    Client,
    /// The address of the client, as trusted proxies or a function name it.
    Address,
    /// The address at the other end of the connection.
    Peer,
    /// The address in a header that any client can send.
    AnyHeader,
    /// A value that clients can choose, or else an address: a client that sends the address of another spends its bucket.
    Colliding,
}

impl IdSource {
    /// Returns the source of ids that come from one extractor or else from another.
    pub(super) fn or_else(self, other: Self) -> Self {
        match (self.min(other), self.max(other)) {
            (Self::Client, Self::Address | Self::Peer | Self::AnyHeader) => Self::Colliding,
            (_, last) => last,
        }
    }

    /// Returns the mistake that such ids are, if they are one: the code of its check, and what to change.
    pub(crate) fn mistake(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::AnyHeader => Some((
                "everyone-trusted",
                "proxy headers are trusted from any peer: use `Proxies::trusted` or `Proxies::hops`, so that clients \
                 cannot choose their address",
            )),
            Self::Colliding => Some((
                "ids-collide",
                "a value that clients choose can be the address of another client: add `.prefix(\"account:\")` to \
                 its extractor",
            )),
            _ => None,
        }
    }
}

/// The reason why a request has no id although it should have one. The [module](super) has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingId(
    /// Boxed, because each request has room for one.
    Box<Missing>,
);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Missing {
    status: StatusCode,
    reason: Cow<'static, str>,
    /// The reason without the id, if that quotes it.
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
        Self(Box::new(Missing {
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

    /// The server has chosen a limit that it cannot apply. Clients see the reason.
    pub(crate) fn limit(reason: &'static str) -> Self {
        Self::of(StatusCode::INTERNAL_SERVER_ERROR, reason.into(), true)
    }

    /// Returns the reason for clients. What the server would have to change is not for them.
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
