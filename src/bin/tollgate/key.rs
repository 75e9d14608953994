//! Whose bucket a request is charged to.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

use thiserror::Error;
use tollgate::id::IdFormat;

use crate::log::{Record, Wanted};

/// The bits of an IPv6 address that one subscriber cannot choose, as in `ClientIp`.
const SUBSCRIBER: u128 = u128::MAX << 64;

/// What identifies the client of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Key {
    /// The client's address; IPv6 by /64.
    #[default]
    Ip,
    /// The /48 of the client's IPv6 address. IPv4 addresses have none.
    Range,
    /// All requests share one bucket.
    Everyone,
    /// A field of a JSON line, or the user of a line in Common Log Format.
    Field(String),
}

/// The error for a key that nothing can be counted by.
#[derive(Clone, Debug, Error)]
#[error("the key `{0}` is empty or has a slash: use ip, /48, everyone, or the name of a field")]
pub(crate) struct KeyError(String);

impl Key {
    /// Adds what the key needs of a request, and returns how to find it.
    pub(crate) fn plan(&self, wanted: &mut Wanted) -> PlannedKey {
        match self {
            Self::Ip | Self::Range => {
                wanted.address = true;
                let is_range = *self == Self::Range;
                PlannedKey::Address { is_range }
            }
            Self::Everyone => PlannedKey::Everyone,
            Self::Field(name) => {
                let known = wanted.fields.iter().position(|field| field == name);
                PlannedKey::Field(known.unwrap_or_else(|| {
                    wanted.fields.push(name.clone());
                    wanted.fields.len() - 1
                }))
            }
        }
    }
}

/// A key whose place in a record is known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlannedKey {
    Address { is_range: bool },
    Everyone,
    Field(usize),
}

impl PlannedKey {
    /// The id of a request's client, if it has one.
    pub(crate) fn id(self, record: &Record) -> Option<String> {
        match self {
            Self::Address { is_range } => id_of(record.address?, is_range),
            Self::Everyone => Some("everyone".to_owned()),
            Self::Field(place) => {
                let value = record.fields.get(place)?.clone();
                value.filter(|value| !value.is_empty())
            }
        }
    }
}

fn id_of(address: IpAddr, is_range: bool) -> Option<String> {
    match address.to_canonical() {
        address if is_range => {
            let address = address.to_string();
            let range = IdFormat::Ipv6Range.fold(&address).ok()?;
            Some(range.to_string())
        }
        IpAddr::V6(address) => {
            Some(Ipv6Addr::from_bits(address.to_bits() & SUBSCRIBER).to_string())
        }
        address => Some(address.to_string()),
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        match text.trim() {
            "ip" => Ok(Self::Ip),
            "/48" | "ip/48" => Ok(Self::Range),
            "everyone" => Ok(Self::Everyone),
            name if name.is_empty() || name.contains('/') => Err(KeyError(text.to_owned())),
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
