//! The decisions and limits that clients see. The texts for common combinations of limits are written once.

use std::{
    fmt::Write,
    sync::{Arc, OnceLock},
};

use http::HeaderValue;

use super::fields::value;
use crate::{
    algorithm::Algorithm,
    decision::{Decision, ceil_secs},
    limit::{Limit, Limits, NamedLimit},
    rule::{BoundRule, Charge, Rules},
};

/// What follows the name of a limit in `RateLimit`.
const REMAINING: &str = ";r=";

/// The decisions on the charges of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided<'a> {
    pub(crate) in_force: &'a InForce,
    pub(crate) charges: &'a [Charge],
    pub(crate) decisions: &'a [Decision],
}

impl<'a> Decided<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = (&'a Charge, &'a Decision)> {
        self.charges.iter().zip(self.decisions)
    }

    /// Returns what clients see.
    #[inline]
    pub(super) fn shown(self) -> impl Iterator<Item = (&'a Charge, &'a Decision)> {
        self.iter()
            .filter(move |(charge, decision)| decision.limited() && !self.in_force.hides(charge))
    }

    #[inline]
    pub(crate) fn is_denied(self) -> bool {
        self.decisions.iter().any(Decision::denies)
    }

    /// Returns the strictest limit that clients see, the first of several that are equal.
    pub(super) fn strictest(self) -> Option<(&'a Charge, &'a Decision)> {
        self.shown().reduce(|first, second| {
            let is_stricter = second.1.strictness() > first.1.strictness();
            if is_stricter { second } else { first }
        })
    }
}

/// The limits in force, and how they are written for the clients of a layer.
#[derive(Debug)]
pub(crate) struct InForce {
    pub(crate) limits: Arc<Limits>,
    /// At the places of the limits.
    policies: Box<[Policy]>,
    /// The places of the rules' own limits.
    pub(crate) own: Box<[u32]>,
    known: [OnceLock<Known>; MOST_KNOWN],
}

/// `RateLimit-Policy` of requests that meet these limits.
#[derive(Debug)]
struct Known {
    /// Their places, and the values that hold in place of the default.
    limits: Box<[(u32, Option<Limit>)]>,
    field: HeaderValue,
}

/// The most of them that are kept: those of the first routes and plans. Others are written for each request.
const MOST_KNOWN: usize = 16;

/// What clients are told of a limit.
#[derive(Debug)]
struct Policy {
    /// Its item of `RateLimit` up to its first number.
    lead: Box<str>,
    has_overrides: bool,
    /// Whether clients see nothing of the limit.
    is_hidden: bool,
}

impl InForce {
    pub(crate) fn new(limits: Arc<Limits>, rules: &Rules) -> Self {
        // A rule whose limit does not exist is rejected before it charges anything.
        let own = |rule: &BoundRule| limits.place_of(&rule.rule.limit).unwrap_or_default();
        Self {
            policies: limits.iter().map(Policy::new).collect(),
            own: rules.iter().map(own).collect(),
            known: Default::default(),
            limits,
        }
    }

    /// Returns `RateLimit-Policy` of the limits that a client sees.
    #[inline]
    pub(super) fn policy(&self, decided: Decided<'_>) -> Option<HeaderValue> {
        let is_of_these = |known: &Known| {
            let mut limits = known.limits.iter();
            let mut is_next = |charge: &Charge| {
                let same = limits.next().filter(|(place, _)| *place == charge.limit);
                same.is_some_and(|(_, own)| own.as_ref() == self.values_of(charge))
            };
            decided.shown().all(|(charge, _)| is_next(charge)) && limits.next().is_none()
        };
        let mut places = self.known.iter();
        let place = places.find(|place| place.get().is_none_or(is_of_these));
        if let Some(known) = place.and_then(OnceLock::get) {
            return Some(known.field.clone());
        }
        let field = self.written(decided)?;
        if let Some(place) = place {
            let own = |charge| self.values_of(charge).cloned();
            let limits = decided
                .shown()
                .map(|(charge, _)| (charge.limit, own(charge)));
            let known = Known {
                limits: limits.collect(),
                field: field.clone(),
            };
            // If another request was faster, the next one of these limits finds another place.
            let _ = place.set(known);
        }
        Some(field)
    }

    /// Writes `RateLimit-Policy`.
    fn written(&self, decided: Decided<'_>) -> Option<HeaderValue> {
        let mut list = String::new();
        for (charge, _) in decided.shown() {
            if !list.is_empty() {
                list.push_str(", ");
            }
            self.write_item(charge, &mut list);
        }
        (!list.is_empty()).then(|| value(list.as_bytes()))
    }

    /// Returns the beginning of the item of `RateLimit` of a charge.
    #[inline]
    pub(super) fn lead(&self, charge: &Charge) -> &str {
        &self.policies[charge.limit as usize].lead
    }

    /// Returns whether clients see nothing of the limit of a charge.
    #[inline]
    pub(super) fn hides(&self, charge: &Charge) -> bool {
        self.policies[charge.limit as usize].is_hidden
    }

    pub(crate) fn named(&self, charge: &Charge) -> &NamedLimit {
        self.limits.at(charge.limit)
    }

    /// Returns the values that hold for a client in place of the default.
    #[inline]
    fn values_of<'a>(&'a self, charge: &'a Charge) -> Option<&'a Limit> {
        let has_overrides = self.policies[charge.limit as usize].has_overrides;
        let own = || self.named(charge).own(charge.client());
        let own = has_overrides.then(own).flatten();
        own.or(charge.values.as_deref())
    }

    /// Returns the limit of a client.
    pub(crate) fn limit_of<'a>(&'a self, charge: &'a Charge) -> Option<&'a Limit> {
        self.values_of(charge)
            .or_else(|| self.named(charge).limit())
    }

    /// Writes the item of `RateLimit-Policy` of a charge.
    fn write_item(&self, charge: &Charge, list: &mut String) {
        let Some(limit) = self.limit_of(charge) else {
            return;
        };
        list.push_str(self.lead(charge).trim_end_matches(REMAINING));
        // A blocked client has a quota of 0.
        let _ = write!(list, ";q={}", limit.max_cost().unwrap_or_default());
        let Some(algorithm) = limit.algorithm() else {
            return;
        };
        if let Algorithm::Concurrency(_) = algorithm {
            list.push_str(";qu=\"concurrent-requests\"");
        }
        if let Some(window) = algorithm.parameters().terms().window {
            let _ = write!(list, ";w={}", ceil_secs(window));
        }
    }
}

impl Policy {
    fn new(named: &NamedLimit) -> Self {
        Self {
            lead: format!("\"{}\"{REMAINING}", named.name()).into(),
            has_overrides: named.override_count() > 0,
            is_hidden: named.is_shadow() || named.is_block(),
        }
    }
}
