//! The decisions and limits that clients see. The texts for common combinations of limits are written once.

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
    rule::{BoundRule, Rules},
};

/// The decisions on what a request is charged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecidedCharges<'a> {
    pub(crate) in_force: &'a InForce,
    pub(crate) members: &'a [Member<'a>],
    pub(crate) decisions: &'a [Decision],
}

impl<'a> DecidedCharges<'a> {
    #[inline]
    pub(crate) fn iter(self) -> impl Iterator<Item = (&'a Member<'a>, &'a Decision)> {
        self.members.iter().zip(self.decisions)
    }

    /// Returns what clients see.
    #[inline]
    pub(super) fn shown(self) -> impl Iterator<Item = (&'a Member<'a>, &'a Decision)> {
        self.iter()
            .filter(|(member, decision)| decision.limited() && !member.limit.is_hidden())
    }

    #[inline]
    pub(crate) fn is_denied(self) -> bool {
        self.decisions.iter().any(Decision::denies)
    }

    /// Returns the strictest limit that clients see, the first of several that are equal.
    pub(super) fn strictest(self) -> Option<(&'a Member<'a>, &'a Decision)> {
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
    /// The places of the rules' own limits.
    pub(crate) own: Box<[u32]>,
    known: [OnceLock<Known>; MOST_KNOWN],
}

/// `RateLimit-Policy` of requests that meet these limits.
#[derive(Debug)]
struct Known {
    /// The limits, and the values that hold in place of the default.
    limits: Box<[(NamedLimit, Option<Limit>)]>,
    field: HeaderValue,
}

/// The most of them that are kept: those of the first routes and plans. Others are written for each request.
const MOST_KNOWN: usize = 16;

impl InForce {
    pub(crate) fn new(limits: Arc<Limits>, rules: &Rules) -> Self {
        // A rule whose limit does not exist is rejected before it charges anything.
        let own = |rule: &BoundRule| limits.place_of(&rule.rule.limit).unwrap_or_default();
        Self {
            own: rules.iter().map(own).collect(),
            known: Default::default(),
            limits,
        }
    }

    /// Returns `RateLimit-Policy` of the limits that a client sees.
    #[inline]
    pub(super) fn policy(&self, decided: DecidedCharges<'_>) -> Option<HeaderValue> {
        let is_of_these = |known: &Known| {
            let mut limits = known.limits.iter();
            let mut is_next = |member: &Member<'_>| {
                let same = limits.next().filter(|(limit, _)| limit.is(member.limit));
                same.is_some_and(|(_, own)| own.as_ref() == member.own())
            };
            decided.shown().all(|(member, _)| is_next(member)) && limits.next().is_none()
        };
        let mut places = self.known.iter();
        let place = places.find(|place| place.get().is_none_or(is_of_these));
        if let Some(known) = place.and_then(OnceLock::get) {
            return Some(known.field.clone());
        }
        let field = written(decided)?;
        if let Some(place) = place {
            let limits = decided
                .shown()
                .map(|(member, _)| (member.limit.clone(), member.own().cloned()));
            let known = Known {
                limits: limits.collect(),
                field: field.clone(),
            };
            // If another request was faster, the next one of these limits finds another place.
            let _ = place.set(known);
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
    if let Some(window) = algorithm.parameters().terms().window {
        let _ = write!(list, ";w={}", ceil_secs(window));
    }
}

/// Returns the value of a field that consists of names and numbers.
#[inline]
pub(super) fn value(text: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(text).expect("the names of limits are ASCII")
}
