//! One request of a log.

use std::net::IpAddr;

/// A request, with those of its parts that are [wanted](Wanted).
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    /// When it was made, in microseconds since the Unix epoch.
    pub(crate) at: u64,
    pub(crate) address: Option<IpAddr>,
    pub(crate) method: String,
    /// The path without the query.
    pub(crate) path: String,
    /// The values of [`Wanted::fields`], in that order.
    pub(crate) fields: Vec<Option<String>>,
}

/// The parts of a request that somebody needs. The rest is not read.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// The field of a JSON line that holds its time, if it is not one of the usual ones.
    pub(crate) time: Option<String>,
    /// Whether the client's address is needed.
    pub(crate) address: bool,
    /// The field of a JSON line that holds the client's address, if it is not one of the usual ones.
    pub(crate) address_field: Option<String>,
    /// Whether the method and the path are needed.
    pub(crate) request: bool,
    /// Further fields, by name.
    pub(crate) fields: Vec<String>,
}
