//! Decisions as JSON.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;
use tollgate::{Decision, Limit, Limits, backend::custom::AlgorithmKey, decision::BatchDecision};

use crate::{
    receipts,
    request::{Asked, Op},
};

/// The answer to a batch: its strictest voting member's figures, and every member's own.
#[derive(Serialize)]
pub(crate) struct BatchAnswer<'a> {
    #[serde(flatten)]
    verdict: Verdict,
    #[serde(flatten)]
    figures: Figures,
    limit: Option<&'a str>,
    id: Option<&'a str>,
    transactions: Vec<MemberAnswer<'a>>,
}

impl<'a> BatchAnswer<'a> {
    pub(crate) fn new(limits: &Limits, op: Op, asked: &'a [Asked], batch: &BatchDecision) -> Self {
        let strictest = batch.strictest().map(|i| &asked[i]);
        let members = asked.iter().zip(batch.members());
        let members: Vec<_> = members
            .map(|(asked, decision)| MemberAnswer::new(limits, op, asked, decision))
            .collect();
        let in_force = strictest.and_then(|asked| asked.in_force(limits));
        Self {
            verdict: match op {
                Op::Refund => Verdict::Refunded(batch.refunded()),
                _ => Verdict::Allowed(batch.allowed()),
            },
            figures: Figures {
                delay_us: members.iter().filter_map(|own| own.figures.delay_us).max(),
                ..Figures::of(batch.decision(), in_force)
            },
            limit: strictest.map(|asked| &*asked.limit),
            id: strictest.map(|asked| &*asked.id),
            transactions: members,
        }
    }
}

/// The answer to a batch of renewals.
#[derive(Serialize)]
pub(crate) struct RenewalsAnswer<'a> {
    renewed: bool,
    transactions: Vec<RenewalAnswer<'a>>,
}

impl<'a> RenewalsAnswer<'a> {
    pub(crate) fn new(limits: &Limits, asked: &'a [Asked], batch: &BatchDecision) -> Self {
        let members = asked.iter().zip(batch.members());
        Self {
            renewed: batch.members().iter().all(Decision::renewed),
            transactions: members
                .map(|(asked, decision)| RenewalAnswer {
                    limit: &asked.limit,
                    id: &asked.id,
                    renewed: decision.renewed(),
                    receipt: receipt(limits, asked, decision),
                    remaining: decision.remaining(),
                })
                .collect(),
        }
    }
}

#[derive(Serialize)]
struct RenewalAnswer<'a> {
    limit: &'a str,
    id: &'a str,
    renewed: bool,
    receipt: Option<String>,
    remaining: Option<u32>,
}

fn receipt(limits: &Limits, asked: &Asked, decision: &Decision) -> Option<String> {
    receipts::write(limits, &asked.limit, &asked.id, &decision.receipt()?)
}

#[derive(Serialize)]
struct MemberAnswer<'a> {
    limit: &'a str,
    id: &'a str,
    #[serde(flatten)]
    verdict: Verdict,
    #[serde(flatten)]
    figures: Figures,
    /// The receipt of a charge, or null.
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<Option<String>>,
}

impl<'a> MemberAnswer<'a> {
    fn new(limits: &Limits, op: Op, asked: &'a Asked, decision: &Decision) -> Self {
        Self {
            limit: &asked.limit,
            id: &asked.id,
            verdict: Verdict::of(op, decision),
            figures: Figures::of(decision, asked.in_force(limits)),
            receipt: matches!(op, Op::Spend).then(|| receipt(limits, asked, decision)),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Allowed(bool),
    Refunded(bool),
}

impl Verdict {
    fn of(op: Op, decision: &Decision) -> Self {
        match op {
            Op::Refund => Self::Refunded(decision.refunded()),
            _ => Self::Allowed(decision.allowed()),
        }
    }
}

/// The state of a bucket. If there is no bucket, only `limited` is set.
#[derive(Serialize)]
struct Figures {
    limited: bool,
    remaining: Option<u32>,
    retry_after_us: Option<u64>,
    next_after_us: Option<u64>,
    reset_after_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_us: Option<u64>,
    #[serde(flatten)]
    grant: Option<Grant>,
}

/// The grant of a limit with tiers.
#[derive(Serialize)]
struct Grant {
    granted: u32,
    tier: Option<usize>,
    split: BTreeMap<usize, u32>,
}

impl Grant {
    fn of(decision: &Decision, by: Option<&Limit>) -> Option<Self> {
        (decision.algorithm() == Some(AlgorithmKey::Tiers)).then(|| Self {
            granted: decision.granted(),
            tier: decision.tier(),
            split: by.map_or_else(BTreeMap::new, |by| decision.split(by).collect()),
        })
    }
}

impl Figures {
    /// Returns the figures of a decision by the limit in force.
    fn of(decision: &Decision, limit: Option<&Limit>) -> Self {
        let limited = decision.limited();
        let us = |wait: Option<Duration>| wait.filter(|_| limited).map(micros);
        let line = decision.algorithm().and(limit).and_then(Limit::line);
        Self {
            limited,
            remaining: decision.remaining(),
            retry_after_us: us(decision.retry_after()),
            next_after_us: us(decision.next_after()),
            reset_after_us: us(decision.reset_after()),
            delay_us: line.map(|_| micros(decision.delay())),
            grant: Grant::of(decision, limit),
        }
    }
}

fn micros(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros()).unwrap_or(u64::MAX)
}
