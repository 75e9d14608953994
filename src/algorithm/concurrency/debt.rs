//! A concurrency limit owes nothing: permits that were taken locally are given back locally.

use std::convert::Infallible;

use super::concurrency::Concurrency;
use crate::algorithm::{
    action::Refund,
    debt::{Owed, Owing},
    window::WindowSnapshot,
};

impl Owing for Concurrency {
    type Ledger = Infallible;

    fn ledger(&self) -> Option<Infallible> {
        None
    }

    fn charge_ledger(&self, ledger: &mut Infallible, _: &WindowSnapshot, _: u32, _: u64) {
        match *ledger {}
    }

    fn refund_ledger(&self, ledger: &mut Infallible, _: Refund<'_>, _: u32, _: u64) {
        match *ledger {}
    }

    fn owed(
        &self,
        ledger: &Infallible,
        _: WindowSnapshot,
        _: WindowSnapshot,
        _: u64,
    ) -> Option<Owed> {
        match *ledger {}
    }

    fn merge_ledger(&self, ledger: &mut Infallible, _: Infallible) {
        match *ledger {}
    }
}
