//! Renewals of the permits that a process holds.

use std::{slice, time::Duration};

use super::super::Limiter;
use crate::{
    decision::Decision,
    transaction::{Batch, Member, Mode, OnFailure, Operation, Receipt, Transaction},
};

impl Limiter {
    /// Renews the permits of many receipts, whatever happens to others.
    pub(super) async fn renew_each(&self, transactions: &[Transaction<'_>]) -> Vec<Renewal> {
        let limits = self.in_force();
        let lookups = self.lookups(&limits, Operation::Renew);
        let mut ids = vec![None; transactions.len()];
        let mut members = Vec::with_capacity(transactions.len());
        let mut renewals = Vec::with_capacity(transactions.len());
        for (transaction, room) in transactions.iter().zip(&mut ids) {
            renewals.push(match lookups.member(transaction, room) {
                Ok(Ok(member)) => {
                    members.push(member);
                    Renewal::Unknown
                }
                Ok(Err(_)) | Err(_) => Renewal::Void,
            });
        }
        let renewed = self.renew_members(&members).await;
        let asked = renewals
            .iter_mut()
            .filter(|renewal| matches!(renewal, Renewal::Unknown));
        match renewed {
            Ok(decisions) => {
                for (renewal, decision) in asked.zip(&decisions) {
                    *renewal = Renewal::of(decision);
                }
            }
            Err(error) => tracing::debug!(%error, "permits could not be renewed"),
        }
        renewals
    }

    /// Takes permits again for work that has them, whatever is left: a renewal has moved them, and nobody knows to when. Those
    /// that it has moved expire.
    pub(super) async fn take_again(&self, transaction: &Transaction<'_>) -> Renewal {
        let limits = self.in_force();
        let lookups = self.lookups(&limits, Operation::Renew);
        let mut room = None;
        let Ok(Ok(member)) = lookups.member(transaction, &mut room) else {
            return Renewal::Void;
        };
        let debit = Member {
            mode: Mode::Debit,
            receipt: None,
            saturates: true,
            // Only the store counts its permits.
            on_failure: Some(OnFailure::Refuse),
            shadow: false,
            ..member
        };
        let batch = Batch::new(Operation::Spend, slice::from_ref(&debit)).at(self.now());
        match self.shared.backend.apply(&batch).await {
            Ok(outcome) => match outcome.decision_on(&batch, 0) {
                Some(decision) => Renewal::of(&decision),
                None => Renewal::Unknown,
            },
            Err(error) => {
                tracing::debug!(%error, "permits could not be taken again");
                Renewal::Unknown
            }
        }
    }
}

/// The result of a renewal.
pub(super) enum Renewal {
    /// The new receipt, and how long it counts.
    Renewed(Receipt, Duration),
    /// The permits have expired, or are gone.
    Lost,
    /// The backend has not answered.
    Unknown,
    /// The limit does not count permits any more.
    Void,
}

impl Renewal {
    fn of(decision: &Decision) -> Self {
        match decision.receipt().zip(decision.hold()) {
            Some((receipt, hold)) => Self::Renewed(receipt, hold),
            None if decision.limited() => Self::Lost,
            None => Self::Unknown,
        }
    }
}
