use super::{answer::ScriptAnswer, call::ScriptCall, error::Failure, keys::KeyForm};
use crate::{
    decision::Decision,
    transaction::{Batch, Member, Operation, OwnedBatch},
};

/// The refund of a slot's charges.
pub(super) struct SlotRefund {
    batch: OwnedBatch,
    /// Whether it refunds all of them. Some algorithms have no refunds.
    pub(super) is_complete: bool,
}

impl SlotRefund {
    /// Creates the refund of a batch by its receipts.
    pub(super) fn of(charged: &OwnedBatch, answer: &ScriptAnswer) -> Self {
        charged.as_batch(|batch| {
            let outcome = answer.judge(batch).ok();
            let decisions = outcome.iter().flat_map(|outcome| {
                let members = 0..batch.members.len();
                members.filter_map(|member| outcome.decision_if(batch, member, true))
            });
            let decisions: Vec<_> = decisions.collect();
            let receipts: Vec<_> = decisions.iter().map(Decision::receipt).collect();
            let refunded = batch.members.iter().zip(&receipts);
            let refunded: Vec<_> = refunded
                .filter_map(|(member, receipt)| {
                    let receipt = Some(receipt.as_ref()?);
                    Some(Member { receipt, ..*member })
                })
                .collect();
            let mut charged = decisions.iter().zip(&receipts);
            let is_complete =
                charged.all(|(decision, receipt)| receipt.is_some() || decision.granted() == 0);
            let refund = Batch::new(Operation::Refund, &refunded).at(batch.now);
            Self {
                batch: OwnedBatch::from(&refund),
                is_complete: is_complete && outcome.is_some(),
            }
        })
    }

    pub(super) fn call(&self, form: &KeyForm) -> Option<ScriptCall> {
        self.batch.as_batch(|batch| {
            let call = ScriptCall::new(Operation::Refund, batch.now, batch.members.iter(), form);
            (!batch.members.is_empty()).then_some(call)
        })
    }

    /// Returns whether each charge was given back.
    pub(super) fn has_given_back(&self, answer: &ScriptAnswer) -> Result<bool, Failure> {
        self.batch.as_batch(|batch| {
            let outcome = answer.judge(batch)?;
            Ok(outcome.answers().iter().all(|answer| answer.passed))
        })
    }
}
