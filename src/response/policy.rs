//! The decisions and limits that clients see. The field for a common combination of limits is written once and kept.

use std::{
    fmt::Write,
    sync::{Arc, OnceLock},
};

use http::HeaderValue;

use crate::{
    algorithm::Algorithm,
    batch::Member,
    decision::{Decision, ceil_secs},
    limit::{Limit, Limits, NamedLimit, REMAINING},
    rule::{LayerRule, Rules},
};

/// The members that a request is charged to, with the decisions on them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecidedCharges<'a> {
    pub(crate) in_force: &'a LimitsInForce,
    pub(crate) members: &'a [Member<'a>],
    pub(crate) decisions: &'a [Decision],
}

impl<'a> DecidedCharges<'a> {
    #[inline]
    pub(crate) fn iter(self) -> impl Iterator<Item = (&'a Member<'a>, &'a Decision)> {
        self.members.iter().zip(self.decisions)
    }

    /// Returns the members that clients see, with the decisions on them.
    #[inline]
    pub(super) fn shown(self) -> impl Iterator<Item = (&'a Member<'a>, &'a Decision)> {
        self.iter()
            .filter(|(member, decision)| decision.limited() && !member.limit.is_hidden())
    }

    #[inline]
    pub(crate) fn is_denied(self) -> bool {
        self.decisions.iter().any(Decision::denies)
    }

    /// Returns the strictest limit that clients see. If several are equal, the first of them.
    pub(super) fn strictest(self) -> Option<(&'a Member<'a>, &'a Decision)> {
        self.shown().reduce(|first, second| {
            let is_stricter = second.1.strictness() > first.1.strictness();
            if is_stricter { second } else { first }
        })
    }
}

/// The limits in force, and how they are written for the clients of a layer.
#[derive(Debug)]
pub(crate) struct LimitsInForce {
    pub(crate) limits: Arc<Limits>,
    /// The indexes of the rules' own limits.
    pub(crate) own: Box<[u32]>,
    policies: [OnceLock<PolicyField>; MOST_POLICIES],
}

/// The field `RateLimit-Policy` of requests that meet these limits.
#[derive(Debug)]
struct PolicyField {
    /// The limits, each with the values that replace its default.
    limits: Box<[(NamedLimit, Option<Limit>)]>,
    field: HeaderValue,
}

/// The most fields that are kept, for the first routes and plans. Other fields are written for each request.
const MOST_POLICIES: usize = 16;

impl LimitsInForce {
    pub(crate) fn new(limits: Arc<Limits>, rules: &Rules) -> Self {
        // A rule whose limit does not exist is rejected before it charges anything.
        let own = |rule: &LayerRule| limits.index_of(&rule.rule.limit).unwrap_or_default();
        Self {
            own: rules.iter().map(own).collect(),
            policies: Default::default(),
            limits,
        }
    }

    /// Returns `RateLimit-Policy` of the limits that a client sees.
    #[inline]
    pub(super) fn policy(&self, decided: DecidedCharges<'_>) -> Option<HeaderValue> {
        let is_of_these = |policy: &PolicyField| {
            let mut limits = policy.limits.iter();
            let mut is_next = |member: &Member<'_>| {
                let same = limits.next().filter(|(limit, _)| limit.is(member.limit));
                same.is_some_and(|(_, own)| own.as_ref() == member.own())
            };
            decided.shown().all(|(member, _)| is_next(member)) && limits.next().is_none()
        };
        let mut slots = self.policies.iter();
        let slot = slots.find(|slot| slot.get().is_none_or(is_of_these));
        if let Some(policy) = slot.and_then(OnceLock::get) {
            return Some(policy.field.clone());
        }
        let field = written(decided)?;
        if let Some(slot) = slot {
            let limits = decided
                .shown()
                .map(|(member, _)| (member.limit.clone(), member.own().cloned()));
            let policy = PolicyField {
                limits: limits.collect(),
                field: field.clone(),
            };
            // If another request has filled the slot, a later request with these limits fills the next one.
            let _ = slot.set(policy);
        }
        Some(field)
    }
}

/// Writes `RateLimit-Policy`.
fn written(decided: DecidedCharges<'_>) -> Option<HeaderValue> {
    let mut list = String::new();
    for (member, _) in decided.shown() {
        if !list.is_empty() {
            list.push_str(", ");
        }
        write_item(member, &mut list);
    }
    (!list.is_empty()).then(|| value(list.as_bytes()))
}

/// Writes the item of `RateLimit-Policy` of a limit.
fn write_item(member: &Member<'_>, list: &mut String) {
    let Some(limit) = member.by else {
        return;
    };
    list.push_str(member.limit.lead().trim_end_matches(REMAINING));
    // A blocked client has a quota of 0.
    let _ = write!(list, ";q={}", limit.max_cost().unwrap_or_default());
    let Some(algorithm) = limit.algorithm() else {
        return;
    };
    if let Algorithm::Concurrency(_) = algorithm {
        list.push_str(";qu=\"concurrent-requests\"");
    }
    if let Some(window) = algorithm.parameters().spans().window {
        let _ = write!(list, ";w={}", ceil_secs(window));
    }
}

/// Returns the value of a field that consists of names and numbers.
#[inline]
pub(super) fn value(text: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(text).expect("the names of limits are ASCII")
}
