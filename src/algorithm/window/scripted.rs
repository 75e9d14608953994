//! Windows in Lua: what scripts are asked, and what they find.

use std::collections::VecDeque;

use smallvec::{SmallVec, smallvec};

use super::{
    snapshot::WindowSnapshot,
    units::Units,
    view::{Sample, WindowView},
    window::Window,
};
use crate::algorithm::{
    action::{Action, Ask, Refund},
    charge::Charge,
    scripted::{Argument, Arguments, MOST_US, Replied, Scripted, instant},
};

/// The largest window whose value is answered as a whole.
const SMALL_WINDOW: u32 = 64;

impl Scripted for Window {
    const LETTER: &'static str = "W";

    type Report = WindowReport;

    fn arguments(&self, ask: &Ask<'_>) -> Arguments {
        let change = match ask.action {
            Action::Probe | Action::Spend => "spend",
            Action::ProbeDebit | Action::Debit if ask.ago_us > 0 => "earlier",
            Action::ProbeDebit | Action::Debit if ask.saturates => "fill",
            Action::ProbeDebit | Action::Debit => "debit",
            Action::Refund => self.refund_verb(ask).unwrap_or("keep"),
            Action::Renew | Action::Keep | Action::Reset => "keep",
        };
        self.arguments_of(change, ask)
    }

    fn refund_verb(&self, ask: &Ask<'_>) -> Option<&'static str> {
        match ask.refund {
            Refund::Cost => Some("refund"),
            _ => Self::mark(ask).map(|_| "undo"),
        }
    }

    /// Returns the instant of the units in a receipt.
    fn mark(ask: &Ask<'_>) -> Option<u64> {
        match ask.refund {
            Refund::Charge(Charge::Window(charge)) => Some(charge.at),
            _ => None,
        }
    }

    fn is_small(&self) -> bool {
        self.limit() <= SMALL_WINDOW
    }

    fn answered(&self, _: &Ask<'_>) -> usize {
        self.limit() as usize
    }

    fn read_value(value: &[u8]) -> Option<Units> {
        let (instants, []) = value.strip_prefix(b"W")?.as_chunks::<8>() else {
            return None;
        };
        let instants = instants.iter().map(|bytes| instant(*bytes));
        let instants: VecDeque<_> = instants.collect::<Option<_>>()?;
        let is_sorted = instants.iter().is_sorted();
        is_sorted.then(|| Units::from_instants(instants))
    }

    /// Reads a report by `window.lua`.
    fn read_report<R: Replied>(report: &[R]) -> Option<WindowReport> {
        let (figures, units) = report.split_first_chunk::<4>()?;
        let [used, until_now, until_named, until_before] = figures.each_ref().map(R::small);
        let units = units.chunks(2).map(|unit| match unit {
            [place, instant] => Some((place.small()?, instant.number()?)),
            _ => None,
        });
        Some(WindowReport {
            used: used?,
            until_now: until_now?,
            until_named: until_named?,
            until_before: until_before.filter(|before| Some(*before) <= until_named)?,
            units: units.collect::<Option<_>>()?,
        })
    }

    fn view_report<'a>(
        &self,
        report: &'a WindowReport,
        ask: &Ask<'_>,
        asked: u64,
    ) -> WindowView<'a> {
        let earlier = asked.saturating_sub(ask.ago_us);
        report.view(asked, Self::mark(ask).unwrap_or(earlier))
    }

    fn units(state: &WindowSnapshot) -> u32 {
        state.change.units()
    }
}

impl Window {
    /// Returns the arguments for a change.
    pub(in crate::algorithm) fn arguments_of(
        &self,
        change: &'static str,
        ask: &Ask<'_>,
    ) -> Arguments {
        let us = u64::try_from(self.window().as_micros()).unwrap_or(MOST_US);
        smallvec![
            Argument::Text(change),
            Argument::number(self.limit()),
            Argument::number(us.min(MOST_US)),
            Argument::number(ask.cost),
            Argument::number(ask.ago_us.min(MOST_US)),
        ]
    }
}

/// A summary of a large window.
#[derive(Clone, Debug)]
pub(crate) struct WindowReport {
    /// The number of units that count.
    used: u32,
    /// The number of units taken by now.
    until_now: u32,
    /// The number of units taken by the instant of a receipt or a debit, and before it.
    until_named: u32,
    until_before: u32,
    /// The instants of some units, with their places.
    units: SmallVec<[(u32, u64); 6]>,
}

impl WindowReport {
    /// Returns the part on which a request depends that names an instant.
    pub(in crate::algorithm) fn view(&self, asked: u64, named: u64) -> WindowView<'_> {
        let sample = Sample {
            until_now: self.until_now,
            named,
            until_named: self.until_named,
            until_before: self.until_before,
            units: &self.units,
        };
        WindowView::sampled(asked, self.used, sample)
    }
}
