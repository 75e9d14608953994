//! How tiers follow those of a store: they repeat its grants.

use std::convert::Infallible;

use super::{tiers::Tiers, view::TierSnapshot};
use crate::algorithm::{
    action::Action,
    counting::Counting,
    debt::Owing,
    follow::{Following, Repeat},
    share::Share,
    ticks::Tat,
};

impl Following for Tiers {
    fn share(&self, share: Share) -> Self {
        self.with_limits(|limit| share.of(limit))
    }

    fn most(&self) -> u32 {
        self.max_units()
    }

    fn instant(charge: &Infallible) -> Tat {
        match *charge {}
    }

    fn repeat(&self, action: Action, figures: &TierSnapshot) -> Repeat {
        match Self::changes(action, figures) {
            true => Repeat::Store,
            false => Repeat::Nothing,
        }
    }
}

/// Nothing of it can be debited, and so nothing is owed.
impl Owing for Tiers {
    type Ledger = Infallible;
}
