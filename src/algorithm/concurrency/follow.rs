//! How the permits of a process follow those of a store: it takes and gives back the same ones.

use std::convert::Infallible;

use super::concurrency::Concurrency;
use crate::algorithm::{
    action::Action,
    debt::Owing,
    follow::{Following, Repeat},
    share::Share,
    ticks::Tat,
    window::{WindowCharge, WindowSnapshot},
};

impl Following for Concurrency {
    fn share(&self, share: Share) -> Self {
        self.with_permits(self.permits.share(share))
    }

    fn most(&self) -> u32 {
        self.limit()
    }

    fn instant(charge: &WindowCharge) -> Tat {
        Tat::from_micros(charge.at)
    }

    fn repeat(&self, action: Action, figures: &WindowSnapshot) -> Repeat {
        self.permits.repeat(action, figures)
    }

    fn moved(_: &WindowCharge, at: u64) -> WindowCharge {
        WindowCharge { at }
    }
}

/// Nothing of it can be debited, and so nothing is owed.
impl Owing for Concurrency {
    type Ledger = Infallible;
}
