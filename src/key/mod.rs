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
//! | [`Host`], for clients | the authority of the URI | 500: the URI has none |
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
mod everyone;
mod extension;
mod extracted;
mod extractor;
mod header;
mod host;
mod ip_list;
mod ipv6_range;
mod joined;
#[cfg(feature = "axum")]
mod matched_path;
mod or_else;
mod predicate;

#[cfg(feature = "pace")]
pub(crate) use self::host::host_of;
#[cfg(feature = "axum")]
pub use self::matched_path::MatchedPath;
pub use self::{
    address::{Proxies, ProxiesError, ProxyHeader, RangeError},
    client_ip::{ClientIp, Within},
    everyone::Everyone,
    extension::ExtensionId,
    extracted::{Extracted, Missing},
    extractor::{Description, IdSource, KeyExtractor},
    header::HeaderId,
    host::Host,
    ip_list::{IpList, IpListError},
    ipv6_range::Ipv6Range,
    or_else::{KeyExtractorExt, OrElse},
    predicate::Predicate,
};
