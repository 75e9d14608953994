//! Tiers owe nothing, because they cannot be debited.

use std::convert::Infallible;

use super::{tiers::Tiers, view::TierSnapshot};
use crate::algorithm::{
    action::Refund,
    debt::{Owed, Owing},
};

impl Owing for Tiers {
    type Ledger = Infallible;

    fn ledger(&self) -> Option<Infallible> {
        None
    }

    fn charge_ledger(&self, ledger: &mut Infallible, _: &TierSnapshot, _: u32, _: u64) {
        match *ledger {}
    }

    fn refund_ledger(&self, ledger: &mut Infallible, _: Refund<'_>, _: u32, _: u64) {
        match *ledger {}
    }

    fn owed(&self, ledger: &Infallible, _: TierSnapshot, _: TierSnapshot, _: u64) -> Option<Owed> {
        match *ledger {}
    }

    fn merge_ledger(&self, ledger: &mut Infallible, _: Infallible) {
        match *ledger {}
    }
}
