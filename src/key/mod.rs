//! Who is asking: from a request's head to the id that its bucket is kept under.
//!
//! | extractor | id | without one |
//! |---|---|---|
//! | [`ClientIp`] | the address of the peer or, behind [`Proxies`], of the client; an IPv6 one by its /64 | 500: the server or a proxy does not pass it on |
//! | [`Ipv6Range`] | the /48 (or another range) of such an address, if it is an IPv6 one | skipped for IPv4, 500 for no address |
//! | [`HeaderId`] | a header's value, such as an account | 400 |
//! | [`ExtensionId`] | what an outer layer put into the extensions | 500: the layer has not run; skipped, if it is [optional](ExtensionId::optional) |
//! | [`MatchedPath`] (feature `axum`) | the route, `/users/{id}` | – (all without a route are one) |
//! | [`Everyone`] | one for all | – |
//! | two to four of these in a tuple | theirs, with colons between them: `12345678:/users/{id}` | what the first does that has none |
//! | [`or_else`](KeyExtractorExt::or_else) of two or more | the first that is in the limit's format | what the last does |
//! | a closure | what it returns: `Option` of an id or of text | skipped |
//!
//! What happens without an id can be changed for each [`Rule`](crate::Rule), by
//! [`OnMissing`](crate::rule::OnMissing).
//!
//! # A custom extractor
//!
//! A closure from the head of a request to an optional id is an extractor:
//!
//! ```
//! use http::request::Parts;
//! use tollgate::Rule;
//!
//! let tenant = |parts: &Parts| parts.uri.path().split('/').nth(1).map(str::to_owned);
//! let rule = Rule::new("requests", tenant);
//! # let _ = rule;
//! ```
//!
//! One that wants to refuse requests implements [`KeyExtractor`]:
//!
//! ```
//! use http::request::Parts;
//! use tollgate::key::{Extracted, KeyExtractor, Missing};
//!
//! #[derive(Debug)]
//! struct ApiKey;
//!
//! impl KeyExtractor for ApiKey {
//!     fn extract(&self, parts: &Parts) -> Extracted {
//!         let query = parts.uri.query().unwrap_or_default();
//!         match query.split('&').find_map(|pair| pair.strip_prefix("key=")) {
//!             Some(key) => Extracted::Id(key.into()),
//!             None => Extracted::Missing(Missing::client("add `?key=` with your API key")),
//!         }
//!     }
//! }
//! ```

mod address;
mod client_ip;
mod description;
mod everyone;
mod extension;
mod header;
mod ipv6_range;
mod joined;
#[cfg(feature = "axum")]
mod matched_path;
mod or_else;
mod predicate;

use std::borrow::Cow;

use http::request::Parts;

use crate::id::Id;

#[cfg(feature = "axum")]
pub use self::matched_path::MatchedPath;
pub use self::{
    address::{Proxies, ProxiesError, ProxyHeader, RangeError},
    client_ip::{ClientIp, Within},
    description::{Description, IdSource},
    everyone::Everyone,
    extension::ExtensionId,
    header::HeaderId,
    ipv6_range::Ipv6Range,
    or_else::{KeyExtractorExt, OrElse},
    predicate::Predicate,
};

/// Says who a request is from, by its head alone.
///
/// It runs for each request, before anything else, so it should neither block nor do much work, and
/// must not panic whatever the request holds.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say who a request is from",
    note = "a closure does: `|parts: &http::request::Parts| -> Option<String> {{ .. }}`",
    note = "see `tollgate::key` for ready ones, such as `ClientIp::peer()`"
)]
pub trait KeyExtractor: Send + Sync + 'static {
    /// Extracts the id from a request's head.
    fn extract(&self, parts: &Parts) -> Extracted;

    /// Describes the ids that it finds. It is asked once, when a rule is made of the extractor.
    fn describe(&self) -> Description {
        Description::default()
    }
}

impl<F, R> KeyExtractor for F
where
    F: Fn(&Parts) -> R + Send + Sync + 'static,
    R: Into<Extracted>,
{
    fn extract(&self, parts: &Parts) -> Extracted {
        self(parts).into()
    }
}

/// What a [`KeyExtractor`] found.
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
