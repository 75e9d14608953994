//! Pays the store back after an outage.

use std::{
    slice,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::{self, Instant};

use super::{breakers::Breakers, debts::Debtor, local::Local, owed::Debt};
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
            let Some(paid) = self.pay(bucket).await else {
                continue;
            };
            (buckets, tokens) = (buckets + 1, tokens + u64::from(paid));
            time::sleep(PAUSE).await;
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
        let mut debtor = self.local.debts().take(bucket)?;
        let mut paid: Option<u32> = None;
        while let Some(debt) = self.local.debt(&debtor) {
            if !self.pay_debt(&debtor, &debt).await {
                self.local.debts().put_back(bucket, debtor);
                break;
            }
            paid = Some(paid.unwrap_or(0).saturating_add(debt.tokens));
            if !debt.is_a_part() {
                break;
            }
            debt.strike_off(&mut debtor);
            time::sleep(PAUSE).await;
        }
        paid
    }

    /// Returns whether the store was asked to charge a debt.
    async fn pay_debt(&self, debtor: &Debtor, debt: &Debt) -> bool {
        let Some(store) = self.store.upgrade() else {
            return false;
        };
        let debit = debit(debtor, debt);
        let batch = Batch::new(Operation::Spend, slice::from_ref(&debit)).at(debtor.at);
        let servers = store.servers();
        // A debit is not a probe: it is only sent to a server that answers.
        let is_back = self.breakers.are_closed(servers, &batch);
        let passes = is_back.then(|| self.breakers.admit(servers, &batch));
        let answer = match passes.flatten() {
            Some(passes) => {
                let begun = store.begin_unboxed(&batch, Some(self.deadline));
                let answer = begun.decided().await;
                passes.ended(&answer);
                Some(answer)
            }
            None => None,
        };
        match answer {
            Some(Ok(outcome)) => self.local.paid(&batch, debt, &outcome),
            None | Some(Err(BackendError::Moving(_) | BackendError::NotDone(_))) => return false,
            Some(Err(_)) => self.local.settled(&debit, debt),
        }
        true
    }
}

/// Returns the debit for the store.
fn debit<'a>(debtor: &'a Debtor, debt: &Debt) -> Member<'a> {
    Member {
        cost: debt.tokens,
        min_cost: debt.tokens,
        mode: Mode::Debit,
        ago_us: debt.ago_us(),
        saturates: true,
        ..debtor.member.lend()
    }
}
