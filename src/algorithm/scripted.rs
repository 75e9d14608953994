//! What the scripts of a server decide: their arguments for each algorithm, and the states that they find.
//!
//! Each algorithm has its arithmetic in Lua. It says what to ask of a bucket, and reads the reply.

use std::fmt;

use smallvec::SmallVec;

use super::{
    action::{Action, Ask},
    algorithm_key::AlgorithmKey,
    concurrency::Concurrency,
    counting::Counting,
    each::{Algorithm, Each, each, map_each},
    gcra::Gcra,
    quota::Quota,
    state::{State, View, ViewIn},
    tiers::Tiers,
    window::Window,
};
use crate::clock::Timestamp;

/// The highest number that Lua represents exactly. Spans in microseconds are capped at this number, which is beyond
/// every tolerance and every debt.
pub(super) const MOST_US: u64 = (1 << 53) - 1;

/// An argument of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    Number(i64),
    Text(&'static str),
}

pub(crate) type Arguments = SmallVec<[Argument; 8]>;

impl Argument {
    /// Stands for an endless span, and for an instant that is not known.
    pub(super) const NONE: Self = Self::Number(-1);

    /// Encodes a number below 2⁵³.
    pub(super) fn number(number: impl Into<u64>) -> Self {
        Self::Number(number.into().cast_signed())
    }
}

/// A value in the reply of a script.
pub(crate) trait Replied: Sized {
    /// Returns the number, if it is one of at least 0.
    fn number(&self) -> Option<u64>;

    /// Returns the number, if it is one.
    fn signed(&self) -> Option<i64>;

    /// Returns the values, if it is an array.
    fn list(&self) -> Option<&[Self]>;

    /// Returns the bytes, if it is a text.
    fn bytes(&self) -> Option<&[u8]>;

    /// Returns the number, if it fits.
    fn small(&self) -> Option<u32> {
        self.number()?.try_into().ok()
    }
}

/// An algorithm with an arithmetic in Lua.
pub(crate) trait Scripted: Counting {
    /// What a script has found stored, as far as one request depends on it.
    type Found: Clone + fmt::Debug;

    // What is asked.

    /// Returns the script for spends of several callers, unless only the general script can decide a spend.
    fn group_script(&self) -> Option<GroupScript>;

    /// Returns the arguments of a spend for the script for spends.
    fn spend_arguments(&self, ask: &Ask<'_>) -> Arguments;

    /// Returns the arguments for the general script.
    fn arguments(&self, ask: &Ask<'_>) -> Arguments;

    /// Returns the verb for a refund; `None` if it gives nothing back.
    fn refund_verb(&self, ask: &Ask<'_>) -> Option<&'static str>;

    /// Returns how many units a spend takes at most, by the count of the script for spends.
    fn most_taken(ask: &Ask<'_>) -> u32 {
        let _ = ask;
        1
    }

    /// Returns the amount of data that the server reads and answers for a spend in a group, counted in arguments.
    fn spend_weight(&self, ask: &Ask<'_>) -> usize {
        let _ = ask;
        1
    }

    /// Returns the amount of data that the general script reads and answers besides its arguments.
    fn answered(&self, ask: &Ask<'_>) -> usize {
        let _ = ask;
        0
    }

    // What is found.

    /// Reads the two values that a script reports of a bucket. `now` is the time of the request, by the server's clock or
    /// the client's.
    fn read_found<R: Replied>(first: &R, second: &R, now: u64) -> Option<Self::Found>;

    /// Returns the part on which one request depends.
    fn view_found<'a>(&self, found: &'a Self::Found, ask: &Ask<'_>) -> Self::View<'a>;

    /// Returns how many units a spend takes, by the count of the script for spends, and the state afterwards.
    fn spend_found(
        &self,
        ask: &Ask<'_>,
        found: &Self::Found,
        now: u64,
    ) -> Option<(u32, Self::Found)>;

    /// Notes how many units the script has taken.
    fn note_taken(found: &mut Self::Found, units: u32) {
        let _ = (found, units);
    }

    /// Returns whether the script has taken as many units as this state shows.
    fn agrees(found: &Self::Found, state: &Self::State) -> bool {
        let _ = (found, state);
        true
    }

    /// Converts a state to another clock, so that it is as far from `to` as it was from `from`.
    fn found_by_clock(found: Self::Found, from: u64, to: u64) -> Self::Found {
        let _ = (from, to);
        found
    }
}

/// The scripts for spends of several callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupScript {
    Spends,
    Uses,
    Grants,
}

/// What a script has found stored.
pub(crate) type Found = Each<
    <Gcra as Scripted>::Found,
    <Tiers as Scripted>::Found,
    <Window as Scripted>::Found,
    <Quota as Scripted>::Found,
    <Concurrency as Scripted>::Found,
>;

impl Algorithm {
    /// Returns the script for spends of several callers, unless only the general script can decide a spend.
    pub(crate) fn group_script(&self) -> Option<GroupScript> {
        each!(self, by => by.group_script())
    }

    /// Returns the verb for the general script, which says what to do to the bucket. Without an action, the script only
    /// reports the stored state.
    pub(crate) fn verb(&self, ask: &Ask<'_>, votes: bool) -> &'static str {
        let verb = match ask.action {
            Action::Spend if votes => Some("spend"),
            Action::Spend => Some("offer"),
            Action::Debit => Some("debit"),
            Action::Refund => each!(self, by => by.refund_verb(ask)),
            Action::Renew => Some("renew"),
            Action::Reset => Some("reset"),
            Action::Probe if votes => Some("vote"),
            Action::Probe | Action::ProbeDebit | Action::Keep => None,
        };
        verb.unwrap_or("look")
    }

    /// Returns the arguments of a spend for the script for spends.
    pub(crate) fn spend_arguments(&self, ask: &Ask<'_>) -> Arguments {
        each!(self, by => by.spend_arguments(ask))
    }

    /// Returns the arguments for the general script, after the verb.
    pub(crate) fn script_arguments(&self, ask: &Ask<'_>) -> Arguments {
        each!(self, by => by.arguments(ask))
    }

    /// Returns how many units a spend takes at most, by the count of the script for spends.
    pub(crate) fn most_taken(&self, ask: &Ask<'_>) -> u32 {
        fn most<A: Scripted>(_: &A, ask: &Ask<'_>) -> u32 {
            A::most_taken(ask)
        }
        each!(self, by => most(by, ask))
    }

    /// Returns the amount of data that the server reads and answers for a spend in a group, counted in arguments.
    pub(crate) fn spend_weight(&self, ask: &Ask<'_>) -> usize {
        each!(self, by => by.spend_weight(ask))
    }

    /// Returns the amount of data that the general script reads and answers besides its arguments.
    pub(crate) fn answered(&self, ask: &Ask<'_>) -> usize {
        each!(self, by => by.answered(ask))
    }

    /// Returns whether a charge can be undone.
    pub(crate) fn can_refund(&self) -> bool {
        fn can<A: Counting>(_: &A) -> bool {
            !A::CHARGE_KINDS.is_empty()
        }
        each!(self, by => can(by))
    }

    /// Returns the view of a state that a script has found, or of an unused bucket.
    pub(crate) fn see_found<'a>(
        &'a self,
        found: Option<&'a Found>,
        ask: &Ask<'_>,
        now: Timestamp,
    ) -> View<'a> {
        let seen = found.and_then(
            |found| map_each!((found, self), (found, by) => ViewIn { by, view: by.view_found(found, ask) }),
        );
        seen.unwrap_or_else(|| self.see(None, now))
    }

    /// Returns how many units a spend takes, by the count of the script for spends, and the state afterwards. Returns
    /// `None` for a part of a state.
    pub(crate) fn spend_found(
        &self,
        ask: &Ask<'_>,
        found: &Found,
        now: u64,
    ) -> Option<(u32, Found)> {
        fn spend<A: Scripted>(
            by: &A,
            ask: &Ask<'_>,
            found: &A::Found,
            now: u64,
            form: impl FnOnce(A::Found) -> Found,
        ) -> Option<(u32, Found)> {
            let (taken, next) = by.spend_found(ask, found, now)?;
            Some((taken, form(next)))
        }
        match (self, found) {
            (Self::Gcra(by), Each::Gcra(found)) => spend(by, ask, found, now, Each::Gcra),
            (Self::Tiers(by), Each::Tiers(found)) => spend(by, ask, found, now, Each::Tiers),
            (Self::Window(by), Each::Window(found)) => spend(by, ask, found, now, Each::Window),
            (Self::Quota(by), Each::Quota(found)) => spend(by, ask, found, now, Each::Quota),
            (Self::Concurrency(by), Each::Concurrency(found)) => {
                spend(by, ask, found, now, Each::Concurrency)
            }
            _ => None,
        }
    }
}

impl Found {
    /// Reads the two values that a script reports of a bucket.
    pub(crate) fn read<R: Replied>(
        algorithm: AlgorithmKey,
        first: &R,
        second: &R,
        now: u64,
    ) -> Option<Self> {
        Some(match algorithm {
            Gcra::KEY => Self::Gcra(Gcra::read_found(first, second, now)?),
            Tiers::KEY => Self::Tiers(Tiers::read_found(first, second, now)?),
            Window::KEY => Self::Window(Window::read_found(first, second, now)?),
            Quota::KEY => Self::Quota(Quota::read_found(first, second, now)?),
            Concurrency::KEY => Self::Concurrency(Concurrency::read_found(first, second, now)?),
        })
    }

    /// Notes how many units the script has taken.
    pub(crate) fn note_taken(&mut self, units: u32) {
        match self {
            Self::Gcra(found) => Gcra::note_taken(found, units),
            Self::Tiers(found) => Tiers::note_taken(found, units),
            Self::Window(found) => Window::note_taken(found, units),
            Self::Quota(found) => Quota::note_taken(found, units),
            Self::Concurrency(found) => Concurrency::note_taken(found, units),
        }
    }

    /// Returns whether the script has taken as many units as this state shows.
    pub(crate) fn agrees(&self, state: &State) -> bool {
        match (self, state) {
            (Self::Gcra(found), Each::Gcra(state)) => Gcra::agrees(found, state),
            (Self::Tiers(found), Each::Tiers(state)) => Tiers::agrees(found, state),
            (Self::Window(found), Each::Window(state)) => Window::agrees(found, state),
            (Self::Quota(found), Each::Quota(state)) => Quota::agrees(found, state),
            (Self::Concurrency(found), Each::Concurrency(state)) => {
                Concurrency::agrees(found, state)
            }
            _ => true,
        }
    }

    /// Converts the state to another clock, so that it is as far from `to` as it was from `from`.
    pub(crate) fn by_clock(self, from: Timestamp, to: Timestamp) -> Self {
        let (from, to) = (from.as_micros(), to.as_micros());
        match self {
            Self::Gcra(found) => Self::Gcra(Gcra::found_by_clock(found, from, to)),
            Self::Tiers(found) => Self::Tiers(Tiers::found_by_clock(found, from, to)),
            Self::Window(found) => Self::Window(Window::found_by_clock(found, from, to)),
            Self::Quota(found) => Self::Quota(Quota::found_by_clock(found, from, to)),
            Self::Concurrency(found) => {
                Self::Concurrency(Concurrency::found_by_clock(found, from, to))
            }
        }
    }
}
