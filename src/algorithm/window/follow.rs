//! How the units of a window follow those of a store: it takes and gives back the same ones.

use super::{change::Change, receipt::WindowCharge, snapshot::WindowSnapshot, window::Window};
use crate::algorithm::{
    action::Action,
    follow::{Following, Repeat},
    share::Share,
    ticks::Tat,
};

impl Following for Window {
    fn share(&self, share: Share) -> Self {
        self.with_limit(share.of(self.limit()))
    }

    fn most(&self) -> u32 {
        self.limit()
    }

    fn instant(charge: &WindowCharge) -> Tat {
        Tat::from_micros(charge.at)
    }

    fn repeat(&self, action: Action, figures: &WindowSnapshot) -> Repeat {
        match figures.change {
            _ if !action.writes() => Repeat::Nothing,
            Change::Nothing => Repeat::Nothing,
            Change::Renew { units, .. } => Repeat::Renew {
                at: figures.at,
                units,
            },
            Change::Take { units, .. } => Repeat::Take {
                at: figures.at,
                units,
            },
            Change::GiveBack { units, .. } => Repeat::GiveBack { units },
        }
    }

    fn moved(_: &WindowCharge, at: u64) -> WindowCharge {
        WindowCharge { at }
    }
}
