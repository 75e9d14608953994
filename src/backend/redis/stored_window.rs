//! The stored state of a window.

use fred::types::Value;
use smallvec::SmallVec;

use crate::{
    algorithm::Charge,
    transaction::{Member, Receipt},
    window::{Change, Sample, Window, WindowView},
};

/// The stored state of a window, as far as one request depends on it.
#[derive(Clone, Debug)]
pub(super) struct StoredWindow {
    /// The time of the request, by the server's clock or the client's.
    asked: u64,
    found: FoundUnits,
    /// The number of units that the script has added or removed, if it reports that.
    units: Option<u32>,
}

#[derive(Clone, Debug)]
enum FoundUnits {
    /// The instants of all units that count.
    All(SmallVec<[u64; 8]>),
    /// The number of units that count; the numbers of units taken by now, by the instant of a receipt or a debit, and
    /// before that instant; and the instants of some units, with their places.
    Some {
        used: u32,
        until: [u32; 3],
        units: SmallVec<[(u32, u64); 6]>,
    },
}

impl StoredWindow {
    pub(super) fn parse(figures: &[Value], units: u32, asked: u64) -> Option<Self> {
        let (used, figures) = figures.split_first()?;
        let used = used.as_u64()?;
        let found = match figures {
            all if all.len() as u64 == used => {
                let all: SmallVec<_> = all.iter().map(Value::as_u64).collect::<Option<_>>()?;
                FoundUnits::All(Some(all).filter(|all| all.is_sorted())?)
            }
            [now, named, before, some @ ..] => {
                let [now, named, before] = [now, named, before].map(small);
                let in_order = before <= named && named.is_some() && now.is_some();
                let units = some.chunks(2).map(|unit| match unit {
                    [place, instant] => Some((small(place)?, instant.as_u64()?)),
                    _ => None,
                });
                FoundUnits::Some {
                    used: u32::try_from(used).ok().filter(|_| in_order)?,
                    until: [now?, named?, before?],
                    units: units.collect::<Option<_>>()?,
                }
            }
            _ => return None,
        };
        Some(Self {
            asked,
            found,
            units: Some(units),
        })
    }

    /// Reads a window from its units.
    pub(super) fn of_units(units: &[Value], asked: u64) -> Option<Self> {
        let all: SmallVec<_> = units.iter().map(Value::as_u64).collect::<Option<_>>()?;
        all.is_sorted().then_some(Self {
            asked,
            found: FoundUnits::All(all),
            units: None,
        })
    }

    /// Returns the state after a spend of `cost`, or `None` if it does not fit.
    pub(super) fn take(&self, window: &Window, cost: u32) -> Option<Self> {
        let FoundUnits::All(units) = &self.found else {
            return None;
        };
        let view = WindowView::of(units, window, self.asked);
        let change = view.spend(window, cost)?;
        let outdated = units.len() - view.used() as usize;
        let mut taken = SmallVec::from(&units[outdated..]);
        if let Change::Take { after, units } = change {
            taken.insert_many(
                after as usize,
                std::iter::repeat_n(self.asked, units as usize),
            );
        }
        Some(Self {
            found: FoundUnits::All(taken),
            ..*self
        })
    }

    pub(super) fn view(&self, window: &Window, member: &Member<'_>) -> WindowView<'_> {
        match &self.found {
            FoundUnits::All(instants) => WindowView::of(instants, window, self.asked),
            FoundUnits::Some { used, until, units } => {
                let named = match member.receipt.and_then(Receipt::stored_charge) {
                    Some(Charge::Window(charge)) => charge.at,
                    _ => self.asked.saturating_sub(member.ago_us),
                };
                let [until_now, until_named, until_before] = *until;
                WindowView::sampled(
                    self.asked,
                    *used,
                    Sample {
                        until_now,
                        named,
                        until_named,
                        until_before,
                        units,
                    },
                )
            }
        }
    }

    /// Returns whether the script has changed this many units. If it does not report that, returns true.
    pub(super) fn has_changed(&self, units: u32) -> bool {
        self.units.is_none_or(|changed| changed == units)
    }
}

fn small(number: &Value) -> Option<u32> {
    number.as_u64()?.try_into().ok()
}
