//! The decisions and limits that clients see. The texts for common combinations of limits are written once.

use std::{
    collections::BTreeSet,
    fmt::Write,
    sync::{Arc, OnceLock},
};

use http::HeaderValue;
use parking_lot::Mutex;

use super::fields::value;
use crate::{
    algorithm::{Refill, Terms},
    at_hand::keep_at_hand,
    decision::{Decision, ceil_secs},
    limit::{Limit, Limits, NamedLimit, REMAINING},
    rule::{BoundRule, Rules},
    transaction::Member,
};

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
pub(super) const LARGEST: u128 = 999_999_999_999_999;

/// The decisions on what a request is charged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided<'a> {
    pub(crate) in_force: &'a InForce,
    pub(crate) members: &'a [Member<'a>],
    pub(crate) decisions: &'a [Decision],
}

impl<'a> Decided<'a> {
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

/// The most texts of a process that are kept for good.
const MOST_TEXTS: usize = 256;

/// The most of them that are kept: those of the first routes and plans. Others are written for each request.
const MOST_KNOWN: usize = 16;

keep_at_hand!(InForce);

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
    pub(super) fn policy(&self, decided: Decided<'_>) -> Option<HeaderValue> {
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
        let field = written(decided, false)?;
        if let Some(place) = place {
            let limits = decided
                .shown()
                .map(|(member, _)| (member.limit.clone(), member.own().cloned()));
            let known = Known {
                limits: limits.collect(),
                field: lasting(&field),
            };
            // If another request was faster, the next one of these limits finds another place.
            let _ = place.set(known);
        }
        Some(field)
    }
}

/// Returns the same value, whose copies count no references: two requests of two processors would wait for the count.
fn lasting(field: &HeaderValue) -> HeaderValue {
    static TEXTS: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let (Ok(text), mut texts) = (field.to_str(), TEXTS.lock()) else {
        return field.clone();
    };
    if let Some(text) = texts.get(text) {
        return HeaderValue::from_static(text);
    }
    if texts.len() == MOST_TEXTS {
        return field.clone();
    }
    let text = &*String::leak(text.to_owned());
    texts.insert(text);
    HeaderValue::from_static(text)
}

/// Writes `RateLimit-Policy`.
pub(super) fn written(decided: Decided<'_>, is_exact: bool) -> Option<HeaderValue> {
    let mut list = String::new();
    for (member, _) in decided.shown() {
        if !list.is_empty() {
            list.push_str(", ");
        }
        write_item(member, is_exact, &mut list);
    }
    (!list.is_empty()).then(|| value(list.as_bytes()))
}

/// Writes the item of `RateLimit-Policy` of a limit.
fn write_item(member: &Member<'_>, is_exact: bool, list: &mut String) {
    let Some(terms) = member.by.and_then(terms) else {
        return;
    };
    list.push_str(member.limit.lead().trim_end_matches(REMAINING));
    let _ = write!(list, ";q={}", terms.quota);
    if let Refill::Permits = terms.refill {
        list.push_str(";qu=\"concurrent-requests\"");
    }
    if let Some(window) = terms.window {
        let _ = write!(list, ";w={}", ceil_secs(window));
    }
    if is_exact {
        write_exactly(&terms, member.ask.cost, list);
    }
}

/// Returns the terms of a limit; `None` if it has no limit.
fn terms(limit: &Limit) -> Option<Terms> {
    let blocked = Terms {
        quota: 0,
        window: None,
        period: None,
        refill: Refill::Other,
    };
    let terms = limit
        .algorithm()
        .map(|algorithm| algorithm.parameters().terms());
    terms.or_else(|| (*limit == Limit::BLOCKED).then_some(blocked))
}

/// Adds the parameters of our own: how units come back, in microseconds, and what the request costs, if it is not 1.
fn write_exactly(terms: &Terms, cost: u32, item: &mut String) {
    let (us, refill) = match terms.refill {
        Refill::Steady { count, period } => {
            let us = period.as_micros();
            (us, format!(";tollgate-count={count};tollgate-period={us}"))
        }
        Refill::Windowed(window) => {
            let us = window.as_micros();
            (us, format!(";tollgate-window={us}"))
        }
        Refill::Other | Refill::Permits => return,
    };
    if us > LARGEST {
        return;
    }
    item.push_str(&refill);
    if cost != 1 {
        let _ = write!(item, ";tollgate-cost={cost}");
    }
}
