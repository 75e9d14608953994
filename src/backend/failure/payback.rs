//! Pays the store back after an outage.

use std::{
    slice,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::{self, Instant};

use super::{breakers::Breakers, local::Local, owed::Debt};
use crate::{
    backend::{Backend, BackendError},
    transaction::{Batch, Fingerprint, Member, Mode, Operation},
};

/// The pause between two debits, so that the processes of a fleet do not flood a store that has just come back.
const PAUSE: Duration = Duration::from_millis(1);

/// The pause before the buckets of a server that did not answer are tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Charges local decisions to the store, bucket by bucket. Each debit is sent once.
#[derive(Debug)]
pub(super) struct Payer<B> {
    pub(super) store: Weak<B>,
    pub(super) local: Local,
    pub(super) breakers: Arc<Breakers>,
    pub(super) deadline: Duration,
}

impl<B: Backend> Payer<B> {
    /// Pays until nothing is owed.
    pub(super) async fn run(self) {
        while self.store.strong_count() > 0 {
            self.round().await;
            if self.local.debts().is_empty() {
                return;
            }
            time::sleep(AGAIN).await;
        }
    }

    /// Pays once for each bucket whose server answers.
    pub(super) async fn round(&self) {
        let begun = Instant::now();
        let (mut buckets, mut tokens) = (0_u32, 0_u64);
        for bucket in self.local.debts().buckets() {
            if let Some(paid) = self.pay(bucket).await {
                (buckets, tokens) = (buckets + 1, tokens + u64::from(paid));
            }
        }
        if buckets > 0 {
            let took = begun.elapsed();
            tracing::debug!(
                buckets,
                tokens,
                ?took,
                "local decisions were charged to the store"
            );
        }
    }

    /// Pays for one bucket. Returns the amount that the store was asked to charge, or `None` if it was not asked.
    async fn pay(&self, bucket: Fingerprint) -> Option<u32> {
        let mut paid: Option<u32> = None;
        while self.is_back(bucket) {
            let Some(debt) = self.local.begin_to_pay(bucket) else {
                break;
            };
            let tokens = debt.owed.units;
            if !self.pay_debt(debt).await {
                break;
            }
            paid = Some(paid.unwrap_or(0).saturating_add(tokens));
            time::sleep(PAUSE).await;
        }
        paid
    }

    /// Returns whether the server of a bucket answers. A debit is not a probe, so it is only sent to such a server.
    fn is_back(&self, bucket: Fingerprint) -> bool {
        let (Some(store), Some(member)) = (self.store.upgrade(), self.local.debts().member(bucket))
        else {
            return false;
        };
        let member = member.as_member();
        let batch = Batch::new(Operation::Spend, slice::from_ref(&member));
        self.breakers.are_closed(store.servers(), &batch)
    }

    /// Returns whether the store was asked to charge a debt.
    ///
    /// The debt is settled already. Only a store that says that it has not charged it changes that. If this future is
    /// dropped, as when its runtime ends, the outcome is as unknown as that of a lost answer.
    async fn pay_debt(&self, debt: Debt) -> bool {
        let Some(store) = self.store.upgrade() else {
            self.local.not_paid(debt);
            return false;
        };
        let outcome = {
            let debit = debit(&debt);
            let batch = Batch::new(Operation::Spend, slice::from_ref(&debit)).at(debt.debtor.at);
            let Some(passes) = self.breakers.admit(store.servers(), &batch) else {
                self.local.not_paid(debt);
                return false;
            };
            let answer = store.ask(&batch, Some(self.deadline)).decided().await;
            passes.ended(&answer);
            if let Ok(outcome) = &answer {
                self.local.paid(&batch, &debt, outcome);
            }
            answer
        };
        match outcome {
            Err(BackendError::Moving(_) | BackendError::NotDone(_)) => {
                self.local.not_paid(debt);
                false
            }
            _ => true,
        }
    }
}

/// Returns the debit for the store.
fn debit(debt: &Debt) -> Member<'_> {
    Member {
        cost: debt.owed.units,
        min_cost: debt.owed.units,
        mode: Mode::Debit,
        ago_us: debt.ago_us(),
        saturates: true,
        ..debt.debtor.member.as_member()
    }
}
