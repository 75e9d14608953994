//! Decisions as JSON.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;
use tollgate::{
    Decision, Limiter, Transaction,
    decision::BatchDecision,
    transaction::{Algorithm, Operation},
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
    pub(crate) fn new(
        limiter: &Limiter,
        operation: Operation,
        transactions: &[Transaction<'a>],
        batch: &BatchDecision,
    ) -> Self {
        let strictest = batch.strictest().map(|i| transactions[i]);
        let members = transactions.iter().zip(batch.members());
        let delays = batch.members().iter().filter_map(delay_of);
        Self {
            verdict: match operation {
                Operation::Refund => Verdict::Refunded(batch.refunded()),
                _ => Verdict::Allowed(batch.allowed()),
            },
            figures: Figures {
                delay_us: delays.max(),
                ..Figures::of(batch.decision())
            },
            limit: strictest.map(|transaction| transaction.limit.as_str()),
            id: strictest.map(|transaction| transaction.id),
            transactions: members
                .map(|(transaction, decision)| MemberAnswer {
                    limit: transaction.limit.as_str(),
                    id: transaction.id,
                    verdict: Verdict::of(operation, decision),
                    figures: Figures::of(decision),
                    receipt: (operation == Operation::Spend)
                        .then(|| receipt(limiter, transaction, decision)),
                })
                .collect(),
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
    pub(crate) fn new(
        limiter: &Limiter,
        transactions: &[Transaction<'a>],
        batch: &BatchDecision,
    ) -> Self {
        let members = transactions.iter().zip(batch.members());
        Self {
            renewed: batch.members().iter().all(Decision::renewed),
            transactions: members
                .map(|(transaction, decision)| RenewalAnswer {
                    limit: transaction.limit.as_str(),
                    id: transaction.id,
                    renewed: decision.renewed(),
                    receipt: receipt(limiter, transaction, decision),
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

fn receipt(
    limiter: &Limiter,
    transaction: &Transaction<'_>,
    decision: &Decision,
) -> Option<String> {
    let receipt = decision.receipt()?;
    let text = limiter.write_receipt(transaction.limit, transaction.id, &receipt);
    text.ok()
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

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Allowed(bool),
    Refunded(bool),
}

impl Verdict {
    fn of(operation: Operation, decision: &Decision) -> Self {
        match operation {
            Operation::Refund => Self::Refunded(decision.refunded()),
            _ => Self::Allowed(decision.allowed()),
        }
    }
}

/// The state of a bucket; only `limited` if there is none.
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
    fn of(decision: &Decision) -> Option<Self> {
        let Algorithm::Tiers(_) = decision.algorithm()? else {
            return None;
        };
        Some(Self {
            granted: decision.granted(),
            tier: decision.tier(),
            split: decision.split().collect(),
        })
    }
}

impl Figures {
    fn of(decision: &Decision) -> Self {
        let limited = decision.limited();
        let us = |wait| {
            Some(wait)
                .filter(|wait| limited && *wait != Decision::NEVER)
                .map(micros)
        };
        Self {
            limited,
            remaining: decision.remaining(),
            retry_after_us: us(decision.retry_after()),
            next_after_us: us(decision.next_after()),
            reset_after_us: us(decision.reset_after()),
            delay_us: delay_of(decision),
            grant: Grant::of(decision),
        }
    }
}

/// The delay on a limit with a line.
fn delay_of(decision: &Decision) -> Option<u64> {
    match decision.algorithm()? {
        Algorithm::Gcra(gcra) if !gcra.max_wait().is_zero() => Some(micros(decision.delay())),
        _ => None,
    }
}

fn micros(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros()).unwrap_or(u64::MAX)
}
