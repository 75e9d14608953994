//! Renewals of the permits that a process holds.

use super::super::{
    Limiter,
    prepare::{Looked, NoMember},
};
use crate::{
    decision::Decision,
    transaction::{Operation, Receipt, Transaction},
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
            let mut looked = Looked::Without(NoMember::Off);
            let result = lookups.look_up(transaction, room, &mut looked);
            renewals.push(match looked.member().filter(|_| result.is_ok()) {
                Some(member) => {
                    members.push(*member);
                    Renewal::Unknown
                }
                None => Renewal::Void,
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
}

/// The result of a renewal.
pub(super) enum Renewal {
    Renewed(Receipt),
    /// The permits have expired, or are gone.
    Lost,
    /// The backend has not answered.
    Unknown,
    /// The limit does not count permits any more.
    Void,
}

impl Renewal {
    fn of(decision: &Decision) -> Self {
        match decision.receipt() {
            Some(receipt) => Self::Renewed(receipt),
            None if decision.limited() => Self::Lost,
            None => Self::Unknown,
        }
    }
}
