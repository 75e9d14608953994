//! What clients are told of the limits in force. It does not depend on the request, so it is written once.

use std::{fmt::Write, sync::Arc};

use arc_swap::ArcSwap;
use http::HeaderValue;

use super::fields::value;
use crate::{
    algorithm::{Refill, Terms},
    limit::{Limit, Limits, NamedLimit},
    rule::{Charge, Rules},
};

/// What follows the name of a limit in `RateLimit`.
const REMAINING: &str = ";r=";

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
pub(super) const LARGEST: u128 = 999_999_999_999_999;

/// The limits in force, and how they are written for the clients of a layer.
#[derive(Debug)]
pub(crate) struct InForce {
    pub(crate) limits: Arc<Limits>,
    /// At the places of the limits.
    policies: Box<[Policy]>,
    /// The places of the rules' own limits.
    pub(crate) own: Box<[u32]>,
    /// `RateLimit-Policy` of a request that all rules charge, each its own limit with the values of the default.
    joined: Option<HeaderValue>,
    /// `RateLimit-Policy` of clients with values of their own.
    others: ArcSwap<Vec<Other>>,
}

/// `RateLimit-Policy` of requests with one limit, whose values are not the default's.
#[derive(Clone, Debug)]
struct Other {
    place: u32,
    limit: Limit,
    policy: HeaderValue,
}

/// The most of them that are kept. Those of further plans and customers are written for each request.
const MOST_OTHERS: usize = 16;

/// What clients are told of a limit.
#[derive(Debug)]
struct Policy {
    /// Its item of `RateLimit` up to its first number.
    lead: Box<str>,
    /// Its item of `RateLimit-Policy` with the values of the default, if it has one.
    item: Option<Box<str>>,
    has_overrides: bool,
    /// Whether clients see nothing of the limit.
    is_hidden: bool,
}

impl InForce {
    pub(crate) fn new(limits: Arc<Limits>, rules: &Rules) -> Self {
        let policies: Box<[_]> = limits.iter().map(Policy::new).collect();
        // A rule whose limit does not exist is rejected before it charges anything.
        let own = rules
            .iter()
            .map(|rule| rule.own_limit(&limits).unwrap_or_default());
        let own: Box<[_]> = own.collect();
        let mut items = Vec::new();
        if rules.chains().all(|chain| chain.len() == 1) {
            let all = own.iter().filter_map(|place| policies.get(*place as usize));
            let shown = all.filter(|policy| !policy.is_hidden);
            items.extend(shown.filter_map(|policy| policy.item.as_deref()));
        }
        let joined = (!items.is_empty()).then(|| value(items.join(", ").as_bytes()));
        Self {
            limits,
            policies,
            own,
            joined,
            others: ArcSwap::default(),
        }
    }

    /// Returns `RateLimit-Policy` of charges that all rules have made, if their clients have no values of their own.
    #[inline]
    pub(super) fn joined(&self, charges: &[Charge]) -> Option<&HeaderValue> {
        let joined = self.joined.as_ref()?;
        let is_usual = |(charge, place): (&Charge, &u32)| {
            charge.limit == *place && self.values_of(charge).is_none()
        };
        let are_usual =
            charges.len() == self.own.len() && charges.iter().zip(&self.own).all(is_usual);
        are_usual.then_some(joined)
    }

    /// Returns `RateLimit-Policy` of the only charge of a request, if its client has values of its own.
    pub(super) fn other(&self, charge: &Charge) -> Option<HeaderValue> {
        let (place, limit) = (charge.limit, self.values_of(charge)?);
        let others = self.others.load();
        let is_known = |other: &&Other| other.place == place && other.limit == *limit;
        if let Some(known) = others.iter().find(is_known) {
            return Some(known.policy.clone());
        }
        let item = self.policies[place as usize].item(&terms(limit)?);
        let policy = value(item.as_bytes());
        if others.len() < MOST_OTHERS {
            let (limit, policy) = (limit.clone(), policy.clone());
            let other = Other {
                place,
                limit,
                policy,
            };
            let more = others.iter().cloned().chain([other]).collect();
            self.others.store(Arc::new(more));
        }
        Some(policy)
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

    #[inline]
    fn override_of(&self, charge: &Charge) -> Option<&Limit> {
        match self.policies[charge.limit as usize].has_overrides {
            true => self.named(charge).own(charge.client()),
            false => None,
        }
    }

    /// Returns the values that hold for a client in place of the default.
    #[inline]
    fn values_of<'a>(&'a self, charge: &'a Charge) -> Option<&'a Limit> {
        self.override_of(charge).or(charge.values.as_deref())
    }

    /// Returns the limit of a client, and whether it is an override.
    pub(crate) fn limit_of<'a>(&'a self, charge: &'a Charge) -> Option<(&'a Limit, bool)> {
        let own = self.override_of(charge).map(|own| (own, true));
        let brought = || Some((charge.values.as_deref()?, false));
        own.or_else(brought)
            .or_else(|| Some((self.named(charge).limit()?, false)))
    }

    /// Writes the item of `RateLimit-Policy` of a charge.
    pub(super) fn write_item(&self, charge: &Charge, is_exact: bool, list: &mut String) {
        let policy = &self.policies[charge.limit as usize];
        match (&policy.item, self.values_of(charge)) {
            (Some(item), None) if !is_exact => list.push_str(item),
            (_, own) => {
                let limit = own.or_else(|| self.named(charge).limit());
                if let Some(terms) = limit.and_then(terms) {
                    list.push_str(&policy.item(&terms));
                    if is_exact {
                        write_exactly(&terms, charge.cost, list);
                    }
                }
            }
        }
    }
}

impl Policy {
    fn new(named: &NamedLimit) -> Self {
        let mut policy = Self {
            lead: format!("\"{}\"{REMAINING}", named.name()).into(),
            item: None,
            has_overrides: named.overrides().len() > 0,
            is_hidden: named.is_shadow() || named.is_block(),
        };
        let terms = named.limit().and_then(terms);
        policy.item = terms.map(|terms| policy.item(&terms).into());
        policy
    }

    fn item(&self, terms: &Terms) -> String {
        let name = &self.lead[..self.lead.len() - REMAINING.len()];
        let mut item = format!("{name};q={}", terms.quota);
        if let Refill::Permits = terms.refill {
            item.push_str(";qu=\"concurrent-requests\"");
        }
        if let Some(window) = terms.window {
            let secs = window.as_micros().div_ceil(1_000_000);
            let _ = write!(item, ";w={secs}");
        }
        item
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
