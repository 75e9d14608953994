//! Finds the bucket that a request is charged to.

use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

use tollgate::id::IdFormat;

use super::{LineError, LogArgs, line::Line};

/// The bits of an IPv6 address that one subscriber cannot choose, as in `ClientIp`.
const SUBSCRIBER: u128 = u128::MAX << 64;

/// The part of a request that identifies its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// The client's address. IPv6 addresses count by their /64.
    Ip,
    /// The /48 of the client's IPv6 address. Clients with IPv4 addresses have none.
    Range,
    /// All requests share one bucket.
    Everyone,
    /// A field of the line.
    Field(String),
}

impl Key {
    /// The id of the client of a line, if it has one.
    pub(super) fn id(&self, line: &impl Line, args: &LogArgs) -> Result<Option<String>, LineError> {
        Ok(match self {
            Self::Ip => Some(by_subscriber(args.address_of(line)?)),
            Self::Range => {
                let range = IdFormat::Ipv6Range.fold(&args.address_of(line)?.to_string());
                range.ok().map(|range| range.to_string())
            }
            Self::Everyone => Some("everyone".to_owned()),
            Self::Field(name) => {
                let value = line
                    .field(name)
                    .filter(|value| !matches!(&**value, "" | "-"));
                value.map(Cow::into_owned)
            }
        })
    }
}

/// Returns an IPv4 address as it is, and the first address of the /64 of an IPv6 address. An IPv6 address that stands for an IPv4
/// address becomes that one.
fn by_subscriber(address: IpAddr) -> String {
    let address = address.to_string();
    let folded = IdFormat::IpAddress.fold(&address);
    let folded = folded.map_or(address, |id| id.to_string());
    match folded.parse::<Ipv6Addr>() {
        Ok(ip) => Ipv6Addr::from_bits(ip.to_bits() & SUBSCRIBER).to_string(),
        Err(_) => folded,
    }
}

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "ip" => Ok(Self::Ip),
            "/48" | "ip/48" => Ok(Self::Range),
            "everyone" => Ok(Self::Everyone),
            name if name.is_empty() || name.contains('/') => Err(format!(
                "the key `{name}` is empty or has a slash: use ip, /48, everyone, or the name of a field"
            )),
            name => Ok(Self::Field(name.to_owned())),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ip => "ip",
            Self::Range => "/48",
            Self::Everyone => "everyone",
            Self::Field(name) => name,
        })
    }
}
