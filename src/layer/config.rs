use std::{fmt, sync::Arc};

use super::{health::Health, traffic::TrafficChecks, waiting_room::WaitingRoom};
use crate::{
    check::{Check, Finding},
    key::Predicate,
    limiter::Limiter,
    response::{Headers, Policy, Responder},
    rule::{Predicates, Rules},
};

/// The configuration of a layer, shared by its services.
#[derive(Clone, Debug)]
pub(super) struct LayerConfig {
    pub(super) limiter: Limiter,
    pub(super) rules: Rules,
    /// For each limit of each rule, its policy.
    pub(super) policies: Vec<Policy>,
    pub(super) responder: Responder,
    pub(super) headers: Headers,
    /// Whether requests carry the assessment.
    pub(super) request_extension: bool,
    /// Whether responses do.
    pub(super) response_extension: bool,
    /// The requests that are exempt from all rules.
    pub(super) exempt: Predicates,
    /// The lists of denied requests.
    pub(super) listed: Vec<DenyList>,
    /// Whether a rule charges by outcome.
    pub(super) settles: bool,
    /// Requests that wait in line.
    pub(super) room: Arc<WaitingRoom>,
    pub(super) health: Arc<Health>,
    pub(super) traffic: Arc<TrafficChecks>,
}

/// A list of denied requests.
#[derive(Clone)]
pub(super) struct DenyList {
    pub(super) name: Arc<str>,
    pub(super) predicate: Arc<dyn Predicate>,
}

impl fmt::Debug for DenyList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

impl LayerConfig {
    /// Returns a mistake that is known at startup.
    pub(super) fn mistake(&self) -> Option<Finding> {
        let mut gullible = self.rules.gullible();
        let limit = gullible
            .next()
            .filter(|_| self.traffic.checks().has(Check::EveryoneTrusted))?;
        let seen = format!("the rule of limit `{limit}` trusts proxy headers from any peer");
        Some(Finding::new(Check::EveryoneTrusted, seen))
    }

    /// Returns a mistake that is known at startup, if checks are strict.
    pub(super) fn refused(&self) -> Option<Finding> {
        self.mistake().filter(|_| self.traffic.checks().is_strict())
    }
}
