use std::net::IpAddr;

use http::{HeaderMap, HeaderName};

use super::{
    choice::Choice,
    forwarded,
    problem::{Problem, Reasons},
    single, x_forwarded_for,
};
use crate::key::Missing;

/// The header in which proxies say who the client is. No other is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyHeader {
    /// `X-Forwarded-For`: a list, to which each proxy appends the address of its peer.
    XForwardedFor,
    /// `Forwarded` ([RFC 7239](https://www.rfc-editor.org/rfc/rfc7239)): a list, to which each proxy
    /// appends an element that names its peer by `for`.
    Forwarded,
    /// A header that holds one address, such as `CF-Connecting-IP` or `X-Real-IP`. The proxy must
    /// replace what a client sends under this name.
    Single(HeaderName),
}

impl ProxyHeader {
    /// The header `name`, which holds one address.
    ///
    /// # Panics
    ///
    /// If `name` is no header name.
    #[must_use]
    #[track_caller]
    pub fn single(name: &str) -> Self {
        match name.parse() {
            Ok(name) => Self::Single(name),
            Err(_) => panic!("`{name}` is not a header name: use ASCII letters, digits and `-`"),
        }
    }

    /// The client's address, chosen from a list; in a header that holds one, that one.
    pub(super) fn client(
        &self,
        headers: &HeaderMap,
        choice: Choice<'_>,
    ) -> Result<IpAddr, Missing> {
        let found = match self {
            Self::XForwardedFor => choice.of(x_forwarded_for::from_the_right(headers)),
            Self::Forwarded => choice.of(forwarded::from_the_right(headers)),
            Self::Single(name) => single::address(headers, name),
        };
        found.map_err(|problem| Missing::server(self.reason(problem)))
    }

    fn reason(&self, problem: Problem) -> &'static str {
        match self {
            Self::XForwardedFor => Reasons::X_FORWARDED_FOR.of(problem),
            Self::Forwarded => Reasons::FORWARDED.of(problem),
            Self::Single(_) => Reasons::SINGLE.of(problem),
        }
    }
}
