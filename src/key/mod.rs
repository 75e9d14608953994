//! Key extractors: they find the id of the client that sent a request.
//!
//! | extractor | id | without one |
//! |---|---|---|
//! | [`ClientIp`] | the address of the peer or, behind [`Proxies`], of the client; IPv6 by /64 | 500: the server or a proxy does not provide it |
//! | [`Ipv6Range`] | the /48 (or another range) of an IPv6 address | skipped for IPv4; 500 without an address |
//! | [`HeaderId`] | a header's value, such as an account; a [secret](#secret-ids) unless it is [shown](HeaderId::shown) | 400 |
//! | [`ExtensionId`] | a value that an outer layer put into the extensions | 500: the layer has not run; skipped if it is [optional](ExtensionId::optional) |
//! | [`MatchedPath`] (feature `axum`) | the route, `/users/{id}` | – (requests without a route share one id) |
//! | [`PathParam`] (feature `axum`) | a parameter of the route, decoded as for the handler, such as the tenant in `/t/{tenant}` | 500: the route has none |
//! | [`Everyone`] | one id for all requests | – |
//! | two to four of these in a tuple | their ids, joined by colons: `12345678:/users/{id}` | what the first part without an id does |
//! | [`or_else`](KeyExtractor::or_else) | the first id that is valid in the limit's format | what the last one does |
//! | [`prefix`](KeyExtractor::prefix) | the id with a text before it: `account:12345678` | what the extractor does |
//! | a closure | the returned id or text | skipped |
//! | `Host` (feature `pace`), for clients | the authority of the URI | 500: the URI has none |
//!
//! [`OnMissing`](crate::rule::OnMissing) changes what a [`Rule`](crate::Rule) does without an id.
//!
//! # Secret ids
//!
//! Refusals, events and `Debug` output contain the id of the client. API keys, tokens and sessions must not appear there, so an
//! extractor can mark its ids with [`Id::secret`](crate::id::Id::secret). People then see a hash, such as
//! `redacted-5f0c1e6b7a2d9384`. A hash is stable within a process and changes on restart. [`HeaderId`] marks its ids unless you
//! call [`shown`](HeaderId::shown). In a tuple, one secret part makes the whole id a secret.
//!
//! A backend stores secret ids as they are, because the bucket of a client must be the same on all servers. `hash_ids` of the Redis
//! backend keeps them out of Redis.
//!
//! # A custom extractor
//!
//! A closure that takes the head of a request and returns an optional id is an extractor:
//!
//! ```
//! use http::request::Parts;
//! use tollgate::Rule;
//!
//! /// Set by the layer that has verified the session.
//! #[derive(Clone)]
//! struct Session { organisation: Option<String> }
//!
//! let organisation = |parts: &Parts| parts.extensions.get::<Session>()?.organisation.clone();
//! let rule = Rule::new("per-organisation", organisation);
//! # let _ = rule;
//! ```
//!
//! An extractor that can refuse requests implements [`KeyExtractor`]:
//!
//! ```
//! use std::collections::HashMap;
//!
//! use http::request::Parts;
//! use tollgate::{id::Id, key::{KeyExtractor, MissingId}};
//!
//! /// The account of an API key. No other keys are ids.
//! #[derive(Debug)]
//! struct ApiKey { accounts: HashMap<String, String> }
//!
//! impl KeyExtractor for ApiKey {
//!     fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId> {
//!         let query = parts.uri.query().unwrap_or_default();
//!         let key = query.split('&').find_map(|pair| pair.strip_prefix("key="));
//!         match key.and_then(|key| self.accounts.get(key)) {
//!             Some(account) => Ok(Some(account.as_str().into())),
//!             None => Err(MissingId::client("add `?key=` with your API key")),
//!         }
//!     }
//! }
//! ```
//!
//! A client must have one id, whatever it sends:
//!
//! - **Decode like the code behind the layer.** If the handler accepts several spellings of a value, such as `acme`, `%61cme` and
//!   `ACME`, they must be one id. Otherwise a client has a new bucket for each spelling. For the path, use [`PathParam`].
//! - **Use only verified values.** A client that can invent ids is never limited. Let an outer layer authenticate, and take the id
//!   from the extension that it sets, or look the value up as above. Limit requests without a verified value by address.
//! - **Keep kinds of ids apart.** If one rule counts by account or else by address, give the accounts a
//!   [prefix](KeyExtractor::prefix). Otherwise a client that sends `192.0.2.1` as its account spends the bucket of that address.
//! - **`None` exempts the request** from the rule. If every request must have an id, return a [`MissingId`].
//! - Mark secrets with [`Id::secret`](crate::id::Id::secret).
//! - Bound the length of ids, and the work for finding one. Do not block, and do not panic.

mod client_ip;
mod extractor;
#[cfg(feature = "pace")]
mod host;
#[cfg(feature = "reload")]
mod ip_list;
mod items;
mod missing_id;
mod proxies;
mod ranges;
#[cfg(feature = "axum")]
mod route;
#[cfg(test)]
mod tests;
mod tuple;
mod value;

pub(crate) use self::extractor::IdSource;
#[cfg(feature = "pace")]
pub use self::host::Host;
#[cfg(feature = "pace")]
pub(crate) use self::host::host_of;
#[cfg(feature = "reload")]
pub use self::ip_list::IpList;
#[cfg(feature = "axum")]
pub(crate) use self::route::route_of;
#[cfg(feature = "axum")]
pub use self::route::{MatchedPath, PathParam};
pub use self::{
    client_ip::{ClientIp, Ipv6Range},
    extractor::KeyExtractor,
    missing_id::MissingId,
    proxies::{Proxies, ProxyHeader},
    ranges::ProxiesError,
    value::{Everyone, ExtensionId, HeaderId},
};
