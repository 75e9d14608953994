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

/// The message for a problem of one header.
///
/// Clients can cause some of the problems. So the messages are constants, which cost nothing to build and never repeat
/// text from a client.
macro_rules! reason {
    ($header:literal, $problem:expr) => {
        match $problem {
            AddressProblem::Absent => concat!(
                $header, " is missing in a request from a trusted proxy: configure the proxy to write \
                 the address of its peer into it, or name the header that the proxy sends; put health \
                 checks, which come from the proxy itself, outside of the layer"
            ),
            AddressProblem::Repeated => concat!(
                $header, " appears more than once: configure the proxy to replace the one that \
                 clients send, or use a header that the proxy appends to"
            ),
            AddressProblem::Invalid => concat!(
                $header, " has no valid IP address where the client's should be: configure the proxy to \
                 write the address of its peer into it"
            ),
            AddressProblem::AllTrusted => concat!(
                $header, " contains only trusted proxies (at most 64 of its items are read): narrow \
                 the trusted ranges to the proxies, so that no client is in them"
            ),
            AddressProblem::TooFew => concat!(
                $header, " is missing or has fewer items than hops: prevent requests that bypass the \
                 proxies, and count only proxies that append to the header"
            ),
        }
    };
}

pub(super) use reason;
