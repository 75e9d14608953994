//! What clients ask a limiter, and how its answers are recorded.

use futures_util::FutureExt;
use tollgate::{
    Decision, Limiter, Transaction, backend::BackendError, decision::Source, limiter::LimiterError,
    transaction::Receipt,
};

use super::{
    checker::{Answer, BUCKETS, Call},
    clients::World,
    model::Figures,
    random::Random,
    record::Begun,
    stack::{LIMITS, Stack},
};

/// A receipt of a charge, and what the model has to know of that.
#[derive(Debug)]
pub(super) struct Charge {
    place: usize,
    of: u64,
    receipt: Receipt,
}

/// The next call of a client.
#[derive(Debug)]
pub(super) enum Wish {
    Spend([u32; BUCKETS]),
    Refund(usize, u32),
    RefundReceipt(Charge),
}

/// The decisions about a call, or `None` if the client has left before.
type Answered<T> = Option<Result<T, LimiterError>>;

impl Wish {
    /// A spend from one bucket, which often leaves something for others.
    pub(super) fn one(random: &Random) -> Self {
        let cost = 1 + random.below(2) * random.below(3);
        Self::Spend([u32::try_from(cost).unwrap(), 0])
    }

    /// Creates a random call of a history.
    pub(super) fn any(random: &Random, receipts: &mut Vec<Charge>) -> Self {
        let cost = || u32::try_from(1 + random.below(3)).unwrap();
        match random.below(9) {
            0 => Self::Refund(random.place(BUCKETS), cost()),
            1 | 2 if !receipts.is_empty() => {
                let mut charge = receipts.swap_remove(random.place(receipts.len()));
                if random.one_in(3) && charge.receipt.cost() > 1 {
                    let receipt = charge.receipt.split(1);
                    receipts.push(Charge { receipt, ..charge });
                }
                Self::RefundReceipt(charge)
            }
            3 | 4 => Self::Spend([cost(), cost()]),
            5 => Self::Spend([0, cost()]),
            _ => Self::Spend([cost(), 0]),
        }
    }
}

impl World {
    /// Asks, and records what comes of it. Returns false if that was certainly nothing, or without the store.
    pub(super) async fn ask(&self, begun: Begun, wish: Wish, receipts: &mut Vec<Charge>) -> bool {
        let limiter = self.limiter(begun);
        match wish {
            Wish::Spend(costs) => {
                let spent = or_leave(&self.random, self.spend(&limiter, &costs)).await;
                self.record_spend(begun, &costs, spent, receipts)
            }
            Wish::Refund(place, cost) => {
                let refund = Transaction::new(self.name(place), &self.id).cost(cost);
                let refunded = or_leave(&self.random, limiter.refund(&refund)).await;
                self.record_refund(begun, (place, cost, None), false, refunded)
            }
            Wish::RefundReceipt(Charge { place, of, receipt }) => {
                let handle = limiter.limit(self.name(place)).unwrap();
                let (cost, is_local) = (receipt.cost(), receipt.is_local());
                let refund = handle.refund_receipt(&self.id, receipt);
                let refunded = or_leave(&self.random, refund).await;
                self.record_refund(begun, (place, cost, Some(of)), is_local, refunded)
            }
        }
    }

    async fn spend(
        &self,
        limiter: &Limiter,
        costs: &[u32; BUCKETS],
    ) -> Result<Vec<Decision>, LimiterError> {
        let meant = costs.iter().enumerate().filter(|(_, cost)| **cost > 0);
        let batch =
            meant.map(|(place, cost)| Transaction::new(self.name(place), &self.id).cost(*cost));
        match batch.collect::<Vec<_>>().as_slice() {
            [one] => Ok(vec![limiter.spend(one).await?]),
            batch => Ok(limiter.spend_batch(batch).await?.members().to_vec()),
        }
    }

    fn record_spend(
        &self,
        begun: Begun,
        costs: &[u32; BUCKETS],
        spent: Answered<Vec<Decision>>,
        receipts: &mut Vec<Charge>,
    ) -> bool {
        let call = Call::Spend(costs.map(u64::from));
        let decisions = match spent {
            Some(Ok(decisions)) => decisions,
            Some(Err(error)) if is_not_done(&error) => return false,
            _ => {
                self.record_unknown(begun, call);
                return true;
            }
        };
        let allowed = decisions.iter().all(Decision::allowed);
        let by = |source| decisions.iter().any(|decision| decision.source() == source);
        let places = (0..BUCKETS).filter(|place| costs[*place] > 0);
        let decided: Vec<_> = places.zip(&decisions).collect();
        for (place, decision) in &decided {
            receipts.extend(self.charge(begun, *place, decision));
        }
        let mut shown = [None; BUCKETS];
        for (place, decision) in &decided {
            shown[*place] = self.shown(*place, decision);
        }
        match (by(Source::Local), allowed) {
            (true, _) => {
                // The store may have charged it as well.
                self.record.add(begun, call.clone(), Answer::Unknown);
                let answer = match allowed {
                    true => Answer::Passed(shown),
                    false => Answer::Denied(shown),
                };
                self.record.add_local(begun, call, answer);
                return false;
            }
            (_, true) => self.record.add(begun, call, Answer::Passed(shown)),
            _ if decided.iter().any(|(place, _)| !self.is_exact(*place)) => {}
            _ if by(Source::Cache) => {
                self.record.add_cached(begun, call, Answer::Denied(shown));
            }
            _ => self.record.add(begun, call, Answer::Denied(shown)),
        }
        true
    }

    fn record_refund(
        &self,
        begun: Begun,
        (place, cost, of): (usize, u32, Option<u64>),
        is_local: bool,
        refunded: Answered<Decision>,
    ) -> bool {
        let cost = cost.into();
        let call = Call::Refund { place, cost, of };
        match refunded {
            Some(Ok(decision)) if is_local => {
                let answer = Answer::Refunded(self.shown(place, &decision));
                self.record.add_local(begun, call, answer);
            }
            Some(Ok(decision)) => {
                let answer = Answer::Refunded(self.shown(place, &decision));
                self.record.add(begun, call, answer);
            }
            Some(Err(error)) if is_not_done(&error) => return false,
            _ if is_local => self.record.add_local(begun, call, Answer::Unknown),
            _ => self.record.add(begun, call, Answer::Unknown),
        }
        true
    }

    /// Records a call that may have taken effect: at the store, or in the process as well.
    fn record_unknown(&self, begun: Begun, call: Call) {
        if self.stack == Stack::Deciding {
            self.record.add_local(begun, call.clone(), Answer::Unknown);
        }
        self.record.add(begun, call, Answer::Unknown);
    }

    /// Returns the figures of the bucket that a decision shows.
    fn shown(&self, place: usize, decision: &Decision) -> Option<Figures> {
        let is_meant =
            matches!(decision.source(), Source::Store | Source::Local) && self.is_exact(place);
        // A remembered denial shows nothing of the others.
        let remaining = decision.remaining().filter(|_| is_meant)?;
        Some(Figures {
            remaining: remaining.into(),
            reset_after: reset_after(decision),
        })
    }

    fn charge(&self, begun: Begun, place: usize, decision: &Decision) -> Option<Charge> {
        let receipt = decision.receipt()?;
        let (_, terms) = LIMITS[self.picks[place]];
        Some(Charge {
            place,
            of: terms.charged_at(begun.now, reset_after(decision)),
            receipt,
        })
    }

    fn name(&self, place: usize) -> &'static str {
        LIMITS[self.picks[place]].0
    }

    fn is_exact(&self, place: usize) -> bool {
        self.stack.is_exact(LIMITS[self.picks[place]].1)
    }
}

/// Waits for an answer, and now and then leaves before it is there.
async fn or_leave<T>(random: &Random, answer: impl Future<Output = T>) -> Option<T> {
    if !random.one_in(10) {
        return Some(answer.await);
    }
    let mut answer = std::pin::pin!(answer);
    let patience = if random.one_in(2) { 4 } else { 40 };
    for _ in 0..1 + random.below(patience) {
        if let Some(answer) = answer.as_mut().now_or_never() {
            return Some(answer);
        }
        tokio::task::yield_now().await;
    }
    None
}

fn reset_after(decision: &Decision) -> u64 {
    u64::try_from(decision.reset_after().unwrap_or_default().as_micros()).unwrap()
}

fn is_not_done(error: &LimiterError) -> bool {
    matches!(error, LimiterError::Backend(BackendError::NotDone(_)))
}
