//! A limit that is recommended.

use tollgate::Limit;

use super::candidates::Candidate;
use crate::busiest::Denials;

/// A candidate and its size.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The place of the candidate.
    pub(crate) place: usize,
    pub(crate) candidate: Candidate,
    pub(crate) size: u32,
    pub(crate) reason: String,
}

/// A recommended limit, and what it would have done.
pub(crate) struct Recommendation {
    pub(crate) choice: Choice,
    pub(crate) limit: Limit,
    pub(crate) denied: u64,
    /// The denied clients by their hashes, the most denied one first.
    pub(crate) clients: Vec<(u64, Denials)>,
}
