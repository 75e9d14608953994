//! The debt of a window: the units that were taken here and still count, one instant after the other.

use std::{collections::VecDeque, mem};

use super::{snapshot::WindowSnapshot, window::Window};
use crate::algorithm::{
    action::Refund,
    charge::Charge,
    debt::{Owed, Owing},
    ticks::{Tat, Ticks},
};

impl Owing for Window {
    /// The instants at which units were taken, and their numbers, in order.
    type Ledger = VecDeque<(u64, u32)>;

    fn ledger(&self) -> Option<Self::Ledger> {
        Some(VecDeque::new())
    }

    fn charge_ledger(&self, taken: &mut Self::Ledger, figures: &WindowSnapshot, _: u32, now: u64) {
        while taken
            .front()
            .is_some_and(|first| !self.is_owed(*first, now))
        {
            taken.pop_front();
        }
        let units = figures.change.units();
        match taken.back_mut() {
            Some((last, taken)) if *last == now => *taken = taken.saturating_add(units),
            _ => taken.push_back((now, units)),
        }
    }

    fn refund_ledger(&self, taken: &mut Self::Ledger, refund: Refund<'_>, cost: u32, _: u64) {
        if let Refund::Charge(Charge::Window(charge)) = refund
            && let Some((_, units)) = taken.iter_mut().find(|(at, _)| *at == charge.at)
        {
            *units = units.saturating_sub(cost);
        }
    }

    fn owed(
        &self,
        taken: &Self::Ledger,
        _: WindowSnapshot,
        _: WindowSnapshot,
        now: u64,
    ) -> Option<Owed> {
        let mut taken = taken.iter().copied();
        let (at, units) = taken.find(|first| self.is_owed(*first, now))?;
        Some(Owed {
            units,
            until: Tat::from_micros(at),
            span: Ticks::default(),
            taken_at: Some(at),
        })
    }

    fn owed_units(
        &self,
        taken: &Self::Ledger,
        _: WindowSnapshot,
        _: WindowSnapshot,
        now: u64,
    ) -> u32 {
        let owed = taken.iter().filter(|taken| self.is_owed(**taken, now));
        owed.fold(0, |sum, (_, units)| sum.saturating_add(*units))
    }

    /// The debit of one instant is paid first.
    fn split_ledger(&self, taken: &mut Self::Ledger, now: u64) -> Option<Self::Ledger> {
        let mut later = mem::take(taken);
        while let Some(first) = later.pop_front() {
            if self.is_owed(first, now) {
                taken.push_back(first);
                break;
            }
        }
        (!later.is_empty()).then_some(later)
    }

    fn merge_ledger(&self, taken: &mut Self::Ledger, mut earlier: Self::Ledger) {
        earlier.append(taken);
        *taken = earlier;
    }

    fn entries(&self, taken: &Self::Ledger) -> usize {
        taken.len()
    }

    fn forget_newest(&self, taken: &mut Self::Ledger) -> bool {
        taken.pop_back().is_some()
    }
}

impl Window {
    /// Returns whether units that were taken at an instant still count.
    fn is_owed(&self, (at, units): (u64, u32), now: u64) -> bool {
        units > 0 && now < self.end(at)
    }
}
