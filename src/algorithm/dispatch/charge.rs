//! Charges in receipts, as receipts and a store see them.

use super::algorithm::{each_as, keyed};
use crate::algorithm::{
    algorithm_key::AlgorithmKey, charge::Charge, counting::Counting, each::Each,
};
#[cfg(feature = "failure-policy")]
use crate::algorithm::{follow::Following, ticks::Tat};

impl Charge {
    /// The part of bucket keys that stands for the algorithm of the charge.
    pub(crate) const fn key(&self) -> AlgorithmKey {
        each_as!(self, (By, This, _) => By::KEY)
    }

    /// Splits a charge of `rest` units and `part` more, which were charged last. Returns the charge of the part.
    #[expect(unreachable_code, reason = "tiers have no charges")]
    pub(crate) fn split(&mut self, rest: u32, part: u32) -> Self {
        each_as!(self, (By, This, charge) => This(By::split(charge, rest, part)))
    }

    /// Returns the kind of the charge and its numbers, for a text.
    pub(crate) fn numbers(&self) -> (u8, Vec<u64>) {
        each_as!(self, (By, This, charge) => By::charge_numbers(charge))
    }

    /// Reads the numbers of a charge of this kind.
    pub(crate) fn read(kind: u8, bytes: &mut &[u8]) -> Option<Self> {
        let is_of =
            |key: &AlgorithmKey| keyed!(*key, (By, This) => By::CHARGE_KINDS.contains(&kind));
        let key = AlgorithmKey::ALL.into_iter().find(is_of)?;
        keyed!(key, (By, This) => By::read_charge(kind, bytes).map(This))
    }
}

#[cfg(feature = "failure-policy")]
impl Charge {
    /// Returns the instant of the charge. The receipts of a bucket have them in order.
    pub(crate) fn instant(&self) -> Tat {
        each_as!(self, (By, This, charge) => By::instant(charge))
    }

    /// Returns the same charge as if it had been made at another instant.
    #[expect(unreachable_code, reason = "tiers have no charges")]
    pub(crate) fn moved(&self, at: u64) -> Self {
        each_as!(self, (By, This, charge) => This(By::moved(charge, at)))
    }
}
