//! Ids of clients, and their formats.
//!
//! | format | ids | canonical form of an id in a request |
//! |---|---|---|
//! | `opaque` | any text but the empty one | the same text |
//! | `ipAddress` | `10.0.0.1`, `2001:db8::ff00:42:8329` | the canonical address; IPv4-mapped and NAT64 ones as IPv4 |
//! | `ipv6RangeCIDR` | `2001:db8::/48` | the /48 of an IPv6 address |
//! | `regId` | `12345678`: a u64 without leading zeros | the same text |
//! | `domain` (feature `domains`) | `example.com`, `foo.github.io` | the eTLD+1 of a name, by the public suffix list |
//! | `fqdnSet` | `example.com,example.org` | the SHA-256 of the set, regardless of order and case |
//! | `domainOrCIDR` (feature `domains`) | `example.com`, `203.0.113.7`, `2001:db8:1:2::` | as `domain`, and the /32 or /64 of an address |
//! | `regId:domain` (feature `domains`) | `12345678:example.com` | both |
//! | `regId:domainOrCIDR` (feature `domains`) | `12345678:example.com`, `12345678:203.0.113.7` | both |
//! | `regId:identValue` | `12345678:www.example.com`, `12345678:2001:db8::1` | both, the whole name or address |
//! | `regId:fqdnSet` | `12345678:example.com,example.org` | both |
//!
//! An id is canonicalized before it is looked up or charged. A client has one bucket, however its id is written, and
//! two clients never share one. Names are ASCII; internationalized names use their `xn--` form. A name that is itself
//! a public suffix (`github.io`) stays as it is. The feature `domains` compiles the list of public suffixes in, which adds
//! about 700 KB to a program. Processes that share buckets should use the same version of it. Without the feature, a limit with
//! such ids is an error at startup.
//!
//! ```
//! # #[cfg(feature = "domains")] {
//! use tollgate::{Limit, Limiter, Limits, MemoryBackend, id::IdFormat, limit::LimitName};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let name = LimitName::new("CertificatesPerDomain", 3, IdFormat::Domain);
//! let limits = Limits::builder().limit(name, Limit::per_hour(5)).build()?;
//! let certificates = Limiter::new(limits, MemoryBackend::new()).limit("CertificatesPerDomain")?;
//!
//! certificates.spend("www.Example.com").await?;
//! let decision = certificates.spend("example.com").await?;
//! assert_eq!(decision.remaining(), Some(3), "it is one bucket");
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?; }
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod address;
mod format;
#[expect(clippy::module_inception, reason = "an id is where one looks for it")]
mod id;
mod name;
mod range;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    address::{canonical_ip, masked, network},
    format::shortened,
    id::{HASHER, client_hash, redacted},
    range::range,
};
pub use self::{
    format::{IdError, IdFormat},
    id::Id,
};

/// The id of the bucket that requests without an id share, in keys and files. No request can send it.
pub(crate) const MISSING: &str = "\u{ab}missing\u{bb}";
