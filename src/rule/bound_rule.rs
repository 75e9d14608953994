use std::{ops::Range, sync::Arc};

use super::Rule;
use crate::{
    id::IdFormat,
    limiter::RuleUse,
    transaction::{LimitPlace, LimitSeed, Mode},
};

/// A rule, with all its data that does not depend on the request.
#[derive(Clone, Debug)]
pub(super) struct BoundRule {
    pub(super) rule: Rule,
    /// The places of its limits among the targets.
    pub(super) targets: Range<usize>,
    /// An earlier rule that finds the same id in each request, if it finds one.
    pub(super) same_id_as: Option<usize>,
    /// The mode of the charge before the request proceeds.
    pub(super) mode: Mode,
    /// Whether its limit is a list of blocked clients.
    pub(super) is_block: bool,
    /// Whether nothing is decided before the request. A debit is never denied, so a later one needs no check.
    pub(super) is_silent: bool,
}

/// A limit that a rule can charge.
#[derive(Clone, Debug)]
pub(super) struct BoundLimit {
    pub(super) limit: Arc<str>,
    /// The id format of the limit, which no reload changes.
    pub(super) format: IdFormat,
    /// The part of fingerprints that its buckets share, which no reload changes either.
    pub(super) seed: LimitSeed,
    /// The place of the limit among the limits in force.
    pub(super) place: Arc<LimitPlace>,
    pub(super) _claim: Arc<RuleUse>,
}
