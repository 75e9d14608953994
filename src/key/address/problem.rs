//! Problems of a proxy header that does not name the client, with remedies.

/// A problem of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressProblem {
    /// The header is missing, although the peer is a trusted proxy.
    Absent,
    /// The header appears more than once, and should hold one address.
    Repeated,
    /// The client's place in the header holds something other than an address.
    Invalid,
    /// All addresses that are read are trusted.
    AllTrusted,
    /// The header has fewer items than there are hops.
    TooFew,
}

/// The messages for each problem of one header.
///
/// Clients can cause some of the problems. So the messages are constants, which cost nothing to build and never repeat
/// text from a client.
pub(super) struct Reasons {
    absent: &'static str,
    repeated: &'static str,
    invalid: &'static str,
    all_trusted: &'static str,
    too_few: &'static str,
}

macro_rules! reasons {
    ($header:literal) => {
        Self {
            absent: concat!(
                $header, " is missing in a request from a trusted proxy: configure the proxy to write \
                 the address of its peer into it, or name the header that the proxy sends; put health \
                 checks, which come from the proxy itself, outside of the layer"
            ),
            repeated: concat!(
                $header, " appears more than once: configure the proxy to replace the one that \
                 clients send, or use a header that the proxy appends to"
            ),
            invalid: concat!(
                $header, " has no valid IP address where the client's should be: configure the proxy to \
                 write the address of its peer into it"
            ),
            all_trusted: concat!(
                $header, " contains only trusted proxies (at most 64 of its items are read): narrow \
                 the trusted ranges to the proxies, so that no client is in them"
            ),
            too_few: concat!(
                $header, " is missing or has fewer items than hops: prevent requests that bypass the \
                 proxies, and count only proxies that append to the header"
            ),
        }
    };
}

impl Reasons {
    pub(super) const X_FORWARDED_FOR: Self = reasons!("`x-forwarded-for`");
    pub(super) const FORWARDED: Self = reasons!("`forwarded`");
    pub(super) const CLOUDFRONT: Self = reasons!("`cloudfront-viewer-address`");
    pub(super) const SINGLE: Self = reasons!("the header of `ProxyHeader::Single`");

    pub(super) fn of(&self, problem: AddressProblem) -> &'static str {
        match problem {
            AddressProblem::Absent => self.absent,
            AddressProblem::Repeated => self.repeated,
            AddressProblem::Invalid => self.invalid,
            AddressProblem::AllTrusted => self.all_trusted,
            AddressProblem::TooFew => self.too_few,
        }
    }
}
