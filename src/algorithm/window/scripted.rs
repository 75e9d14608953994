//! Windows in Lua: what scripts are asked, and what they find.

use smallvec::{SmallVec, smallvec};

use super::{
    change::Change,
    snapshot::WindowSnapshot,
    view::{Sample, WindowView},
    window::Window,
};
use crate::algorithm::{
    Charge,
    action::{Action, Ask, Refund},
    scripted::{Argument, Arguments, GroupScript, MOST_US, Replied, Scripted},
};

/// The largest window that scripts report unit by unit.
const SMALL_WINDOW: u32 = 16;

impl Scripted for Window {
    type Found = StoredWindow;

    fn group_script(&self) -> Option<GroupScript> {
        (self.limit() <= SMALL_WINDOW).then_some(GroupScript::Uses)
    }

    fn spend_arguments(&self, ask: &Ask<'_>) -> Arguments {
        smallvec![
            Argument::number(self.limit()),
            Argument::number(ask.cost),
            self.span(),
            Argument::Text("W"),
        ]
    }

    fn arguments(&self, ask: &Ask<'_>) -> Arguments {
        let instant = match (ask.ago_us, receipt_instant(ask)) {
            (0, Some(at)) => Argument::number(at),
            (0, None) => Argument::NONE,
            (ago, _) => Argument::number(ago.min(MOST_US)),
        };
        self.arguments_of("W", change_name(ask), ask.cost, instant)
    }

    fn refund_verb(&self, ask: &Ask<'_>) -> Option<&'static str> {
        gives_back(ask).then_some("refund")
    }

    /// The script reads and writes a window as a whole.
    fn answered(&self, _: &Ask<'_>) -> usize {
        self.limit() as usize
    }

    /// Reads a report by `window.lua`, or the instants of all units.
    fn read_found<R: Replied>(first: &R, second: &R, now: u64) -> Option<StoredWindow> {
        match first.list()?.split_first() {
            Some((letter, figures)) if letter.bytes().is_some() => {
                StoredWindow::read(figures, second.small()?, now)
            }
            _ => StoredWindow::of_units(first.list()?, now),
        }
    }

    fn view_found<'a>(&self, found: &'a StoredWindow, ask: &Ask<'_>) -> WindowView<'a> {
        let earlier = found.asked.saturating_sub(ask.ago_us);
        found.view(self, receipt_instant(ask).unwrap_or(earlier))
    }

    fn spend_found(
        &self,
        ask: &Ask<'_>,
        found: &StoredWindow,
        _: u64,
    ) -> Option<(u32, StoredWindow)> {
        found.take(self, ask.cost)
    }

    fn agrees(found: &StoredWindow, state: &WindowSnapshot) -> bool {
        let changed = found.units;
        changed.is_none_or(|changed| changed == state.change.units())
    }
}

impl Window {
    /// Returns the arguments of a member with this letter. The instant is that of a receipt or of an earlier debit.
    pub(in crate::algorithm) fn arguments_of(
        &self,
        letter: &'static str,
        change: &'static str,
        cost: u32,
        instant: Argument,
    ) -> Arguments {
        smallvec![
            Argument::Text(letter),
            Argument::Text(change),
            Argument::number(self.limit()),
            self.span(),
            Argument::number(cost),
            instant,
        ]
    }

    fn span(&self) -> Argument {
        let us = u64::try_from(self.window().as_micros()).unwrap_or(MOST_US);
        Argument::number(us.min(MOST_US))
    }
}

/// Returns the change to the units if the batch passes.
fn change_name(ask: &Ask<'_>) -> &'static str {
    match ask.action {
        Action::Probe | Action::Spend => "spend",
        Action::ProbeDebit | Action::Debit if ask.ago_us > 0 => "earlier",
        Action::ProbeDebit | Action::Debit if ask.saturates => "fill",
        Action::ProbeDebit | Action::Debit => "debit",
        Action::Refund if gives_back(ask) => "refund",
        Action::Refund | Action::Renew | Action::Keep | Action::Reset => "keep",
    }
}

/// Returns whether a refund gives anything back.
fn gives_back(ask: &Ask<'_>) -> bool {
    matches!(ask.refund, Refund::Cost | Refund::Charge(Charge::Window(_)))
}

/// Returns the instant of the units in a receipt.
fn receipt_instant(ask: &Ask<'_>) -> Option<u64> {
    match ask.refund {
        Refund::Charge(Charge::Window(charge)) => Some(charge.at),
        _ => None,
    }
}

/// The stored state of a window, as far as one request depends on it.
#[derive(Clone, Debug)]
pub(crate) struct StoredWindow {
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
    fn read<R: Replied>(figures: &[R], units: u32, asked: u64) -> Option<Self> {
        let (used, figures) = figures.split_first()?;
        let used = used.number()?;
        let found = match figures {
            all if all.len() as u64 == used => {
                let all: SmallVec<_> = all.iter().map(R::number).collect::<Option<_>>()?;
                FoundUnits::All(Some(all).filter(|all| all.is_sorted())?)
            }
            [now, named, before, some @ ..] => {
                let [now, named, before] = [now, named, before].map(R::small);
                let in_order = before <= named && named.is_some() && now.is_some();
                let units = some.chunks(2).map(|unit| match unit {
                    [place, instant] => Some((place.small()?, instant.number()?)),
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
    fn of_units<R: Replied>(units: &[R], asked: u64) -> Option<Self> {
        let all: SmallVec<_> = units.iter().map(R::number).collect::<Option<_>>()?;
        all.is_sorted().then_some(Self {
            asked,
            found: FoundUnits::All(all),
            units: None,
        })
    }

    /// Returns whether a spend of `cost` fits, as 1 or 0, and the state after it. Returns `None` for a part of the state.
    fn take(&self, window: &Window, cost: u32) -> Option<(u32, Self)> {
        let FoundUnits::All(units) = &self.found else {
            return None;
        };
        let view = WindowView::of(units, window, self.asked);
        let Some(change) = view.spend(window, cost) else {
            return Some((0, self.clone()));
        };
        let outdated = units.len() - view.used() as usize;
        let mut taken = SmallVec::from(&units[outdated..]);
        if let Change::Take { after, units } = change {
            taken.insert_many(
                after as usize,
                std::iter::repeat_n(self.asked, units as usize),
            );
        }
        let found = FoundUnits::All(taken);
        Some((1, Self { found, ..*self }))
    }

    /// Returns the part on which a request depends that names an instant.
    pub(in crate::algorithm) fn view(&self, window: &Window, named: u64) -> WindowView<'_> {
        match &self.found {
            FoundUnits::All(instants) => WindowView::of(instants, window, self.asked),
            FoundUnits::Some { used, until, units } => {
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
}
