use std::net::IpAddr;

use http::{HeaderMap, HeaderName, header::AsHeaderName};

use super::{
    forwarded, node,
    problem::{AddressProblem, reason},
    ranges::{ProxiesError, Ranges},
};
use crate::key::extracted::MissingId;

/// The most items of a list that are read.
pub(super) const MAX_ITEMS: usize = 64;

const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// Holds an address and always a port.
const CLOUDFRONT: &str = "cloudfront-viewer-address";

/// The header in which proxies name the client. No other header is read. [`Proxies`](super::Proxies) has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyHeader {
    /// `X-Forwarded-For`: a list, to which each proxy appends the address of its peer.
    XForwardedFor,
    /// `Forwarded` ([RFC 7239](https://www.rfc-editor.org/rfc/rfc7239)): a list, to which each proxy appends an
    /// element with its peer's address in `for`.
    Forwarded,
    /// `CloudFront-Viewer-Address`, which CloudFront sets to the address and port of its peer. IPv6 addresses have no
    /// brackets: `198.51.100.10:46532`, `2001:db8::7:46532`.
    ///
    /// CloudFront adds it if an origin request policy names it. No other address format is accepted in it.
    ///
    /// Source: Amazon CloudFront Developer Guide, "Add CloudFront request headers".
    CloudFrontViewerAddress,
    /// A header that holds a single address, such as `CF-Connecting-IP` or `X-Real-IP`. The proxy must replace the
    /// value that a client sends.
    ///
    /// [`Proxies`](super::Proxies) rejects it for headers that have their own variant.
    Single(HeaderName),
}

impl ProxyHeader {
    /// The header `name`, which holds a single address.
    ///
    /// # Panics
    ///
    /// If `name` is not a valid header name, or if the header has its own variant: `X-Forwarded-For`, `Forwarded` and
    /// `CloudFront-Viewer-Address`.
    #[must_use]
    #[track_caller]
    pub fn single(name: &str) -> Self {
        let header = match name.parse() {
            Ok(name) => Self::Single(name),
            Err(_) => panic!("`{name}` is not a header name: use ASCII letters, digits and `-`"),
        };
        match header.misread() {
            Some(misread) => panic!("{misread}"),
            None => header,
        }
    }

    /// Returns the error for a header that is wrongly read as a single address.
    pub(super) fn misread(&self) -> Option<ProxiesError> {
        let Self::Single(name) = self else {
            return None;
        };
        let variants = [
            (X_FORWARDED_FOR, "XForwardedFor"),
            ("forwarded", "Forwarded"),
            (CLOUDFRONT, "CloudFrontViewerAddress"),
        ];
        let (name, variant) = variants.into_iter().find(|(other, _)| name == other)?;
        Some(ProxiesError::NotSingle { name, variant })
    }

    /// Returns the client's address: chosen from a list, or the only one of a header with a single address.
    pub(super) fn client(
        &self,
        headers: &HeaderMap,
        choice: ItemChoice<'_>,
    ) -> Result<IpAddr, MissingId> {
        let found = match self {
            Self::XForwardedFor => choice.of(from_the_right(headers)),
            Self::Forwarded => choice.of(forwarded::from_the_right(headers)),
            Self::CloudFrontViewerAddress => line(headers, CLOUDFRONT)
                .and_then(|line| node::with_bare_port(line).ok_or(AddressProblem::Invalid)),
            Self::Single(name) => address(headers, name),
        };
        found.map_err(|problem| MissingId::server(self.reason(problem)))
    }

    fn reason(&self, problem: AddressProblem) -> &'static str {
        match self {
            Self::XForwardedFor => reason!("`x-forwarded-for`", problem),
            Self::Forwarded => reason!("`forwarded`", problem),
            Self::CloudFrontViewerAddress => reason!("`cloudfront-viewer-address`", problem),
            Self::Single(_) => reason!("the header of `ProxyHeader::Single`", problem),
        }
    }
}

/// A way to choose the client's item of a list. Items are counted from the right, because proxies append to the list.
#[derive(Clone, Copy, Debug)]
pub(super) enum ItemChoice<'a> {
    /// The first item from the right that is not in these ranges.
    Untrusted(&'a Ranges),
    /// The item at this place from the right. The last item has the place 1.
    Nth(usize),
}

impl ItemChoice<'_> {
    /// Chooses among `items`, which begin with the last one. An item that is not an address is never skipped.
    fn of(self, mut items: impl Iterator<Item = Option<IpAddr>>) -> Result<IpAddr, AddressProblem> {
        let ranges = match self {
            Self::Untrusted(ranges) => ranges,
            Self::Nth(place) => {
                let item = items.nth(place.saturating_sub(1));
                return item
                    .ok_or(AddressProblem::TooFew)?
                    .ok_or(AddressProblem::Invalid);
            }
        };
        let mut problem = AddressProblem::Absent;
        for item in items.take(MAX_ITEMS) {
            let ip = item.ok_or(AddressProblem::Invalid)?;
            if !ranges.contains(ip) {
                return Ok(ip);
            }
            problem = AddressProblem::AllTrusted;
        }
        Err(problem)
    }
}

/// Returns the items of all lines of `X-Forwarded-For`, the last one first. An item that is not an address keeps its place.
pub(super) fn from_the_right(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = headers.get_all(X_FORWARDED_FOR).iter().rev();
    lines
        .flat_map(|line| line.as_bytes().rsplit(is_comma))
        .map(node::plain)
}

/// Returns the same items, the first one first.
pub(super) fn from_the_left(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = headers.get_all(X_FORWARDED_FOR).iter();
    lines
        .flat_map(|line| line.as_bytes().split(is_comma))
        .map(node::plain)
}

fn is_comma(byte: &u8) -> bool {
    *byte == b','
}

/// Returns the address in the header `name`, which must occur exactly once.
pub(super) fn address(
    headers: &HeaderMap,
    name: impl AsHeaderName,
) -> Result<IpAddr, AddressProblem> {
    node::plain(line(headers, name)?).ok_or(AddressProblem::Invalid)
}

/// Returns the value of the header `name`, which must occur exactly once.
fn line(headers: &HeaderMap, name: impl AsHeaderName) -> Result<&[u8], AddressProblem> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next().ok_or(AddressProblem::Absent)?;
    if lines.next().is_some() {
        return Err(AddressProblem::Repeated);
    }
    Ok(line.as_bytes())
}
