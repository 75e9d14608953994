//! Key extractors: they find the id of the client that sent a request.
//!
//! | extractor | id | without one |
//! |---|---|---|
//! | [`ClientIp`] | the address of the peer or, behind [`Proxies`], of the client; IPv6 by /64 | 500: the server or a proxy does not provide it |
//! | [`Ipv6Range`] | the /48 (or another range) of an IPv6 address | skipped for IPv4; 500 without an address |
//! | [`HeaderId`] | a header's value, such as an account; a [secret](#secret-ids) unless it is [shown](HeaderId::shown) | 400 |
//! | [`ExtensionId`] | a value that an outer layer put into the extensions | 500: the layer has not run; skipped if it is [optional](ExtensionId::optional) |
//! | [`MatchedPath`] (feature `axum`) | the route, `/users/{id}` | – (requests without a route share one id) |
//! | [`Everyone`] | one id for all requests | – |
//! | two to four of these in a tuple | their ids, joined by colons: `12345678:/users/{id}` | what the first part without an id does |
//! | [`or_else`](KeyExtractorExt::or_else) of two or more | the first id that is valid in the limit's format | what the last one does |
//! | a closure | the returned id or text, or an `Option` of it | skipped |
//! | [`Host`], for clients | the authority of the URI | 500: the URI has none |
//!
//! [`OnMissing`](crate::rule::OnMissing) changes what a [`Rule`](crate::Rule) does without an id.
//!
//! # Secret ids
//!
//! Refusals, events and `Debug` output contain the id of the client. If it is an API key, a token or a session, nobody should
//! read it there, so an extractor can mark its ids with [`Id::secret`](crate::id::Id::secret): people then see a hash, such as
//! `redacted-5f0c1e6b7a2d9384`. A hash is stable within a process and changes on restart. [`HeaderId`] marks its ids unless
//! you call [`shown`](HeaderId::shown). In a tuple, one secret part makes the whole id a secret. All others show their ids.
//!
//! A backend stores secret ids as they are, because the bucket of a client must be the same on all servers.
//! `KeyForm::hash_ids` keeps them out of Redis.
//!
//! # A custom extractor
//!
//! A closure that takes the head of a request and returns an optional id is an extractor:
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
//! An extractor that can refuse requests implements [`KeyExtractor`]:
//!
//! ```
//! use http::request::Parts;
//! use tollgate::{id::Id, key::{Extracted, KeyExtractor, MissingId}};
//!
//! #[derive(Debug)]
//! struct ApiKey;
//!
//! impl KeyExtractor for ApiKey {
//!     fn extract(&self, parts: &Parts) -> Extracted {
//!         let query = parts.uri.query().unwrap_or_default();
//!         match query.split('&').find_map(|pair| pair.strip_prefix("key=")) {
//!             Some(key) => Extracted::Id(Id::from(key).secret()),
//!             None => Extracted::Missing(MissingId::client("add `?key=` with your API key")),
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
    extracted::{Extracted, MissingId},
    extractor::{IdProperties, IdSource, KeyExtractor},
    header::HeaderId,
    host::Host,
    ip_list::{IpList, IpListError},
    ipv6_range::Ipv6Range,
    or_else::{KeyExtractorExt, OrElse},
    predicate::Predicate,
};
