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
    each::{Algorithm, Each, each, each_as, keyed, map_each},
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
pub(crate) trait Replied {
    /// Returns whether there is no value.
    fn is_missing(&self) -> bool;

    /// Returns the number, if it is one.
    fn signed(&self) -> Option<i64>;

    /// Returns the values, if it is an array.
    fn list(&self) -> Option<&[Self]>
    where
        Self: Sized;

    /// Returns the bytes, if it is a text.
    fn bytes(&self) -> Option<&[u8]>;

    /// Returns the number, if it is one of at least 0.
    fn number(&self) -> Option<u64> {
        self.signed()?.try_into().ok()
    }

    /// Returns the number, if it fits.
    fn small(&self) -> Option<u32> {
        self.number()?.try_into().ok()
    }
}

/// Reads the digits of a number in a stored value.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    let are_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let digits = str::from_utf8(digits).ok().filter(|_| are_digits)?;
    digits.parse().ok()
}

/// Reads an instant in microseconds, which is a whole number below 2⁵³.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is compared with its original"
)]
pub(super) fn instant(bytes: [u8; 8]) -> Option<u64> {
    const END: f64 = (1_u64 << 53) as f64;
    let number = f64::from_le_bytes(bytes);
    ((0.0..END).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

/// An algorithm with an arithmetic in Lua.
pub(crate) trait Scripted: Counting {
    /// The letter of the algorithm in the arguments of scripts.
    const LETTER: &'static str;

    /// Whether spends have a script of their own, `spends.lua`, which takes less time.
    const HAS_SPENDS_SCRIPT: bool = false;

    /// The part of a large value on which one request depends.
    type Report: Clone + fmt::Debug;

    // What is asked.

    /// Returns the arguments of a request, which requests of other clients share.
    fn arguments(&self, ask: &Ask<'_>) -> Arguments;

    /// Returns the verb for a refund; `None` if it gives nothing back.
    fn refund_verb(&self, ask: &Ask<'_>) -> Option<&'static str>;

    /// Returns the mark of the charge that a refund gives back or a renewal moves, if the script needs it.
    fn mark(ask: &Ask<'_>) -> Option<u64> {
        let _ = ask;
        None
    }

    /// Returns whether values are so small that they are read, written and answered as a whole.
    fn is_small(&self) -> bool {
        true
    }

    /// Returns the amount of data that the script reads and answers besides its arguments, counted in arguments.
    fn answered(&self, ask: &Ask<'_>) -> usize {
        let _ = ask;
        0
    }

    /// Whether scripts count the units that requests take, and not the requests that pass.
    const COUNTS_UNITS: bool = false;

    // What is found.

    /// Reads a stored value.
    fn read_value(value: &[u8]) -> Option<Self::Stored>;

    /// Reads the report of a large value.
    fn read_report<R: Replied>(report: &[R]) -> Option<Self::Report> {
        let _ = report;
        None
    }

    /// Returns the view of a report on a request at this time.
    fn view_report<'a>(
        &self,
        report: &'a Self::Report,
        ask: &Ask<'_>,
        asked: u64,
    ) -> Self::View<'a>;

    /// Returns the number of units that a request has taken or given back.
    fn units(state: &Self::State) -> u32 {
        let _ = state;
        0
    }

    /// Converts a stored state to another clock, so that it is as far from `to` as it was from `from`.
    fn stored_by_clock(stored: Self::Stored, from: u64, to: u64) -> Self::Stored {
        let _ = (from, to);
        stored
    }
}

/// What a script has found stored.
pub(crate) type Found =
    Each<FoundIn<Gcra>, FoundIn<Tiers>, FoundIn<Window>, FoundIn<Quota>, FoundIn<Concurrency>>;

/// What a script has found stored for one algorithm, as far as one request depends on it.
#[derive(Clone, Debug)]
pub(crate) struct FoundIn<A: Scripted> {
    /// The time of the request, by the server's clock or the client's.
    asked: u64,
    part: FoundPart<A>,
    /// The number of units that the script has taken or given back, if it reports that.
    taken: Option<u32>,
}

#[derive(Clone, Debug)]
enum FoundPart<A: Scripted> {
    /// The whole state; `None` for an unused bucket.
    Whole(Option<A::Stored>),
    Report(A::Report),
}

impl<A: Scripted> FoundIn<A> {
    fn read<R: Replied>(value: &R, taken: Option<u32>, asked: u64) -> Option<Self> {
        let part = match value.list() {
            Some(report) => FoundPart::Report(A::read_report(report)?),
            None if value.is_missing() => FoundPart::Whole(None),
            None => FoundPart::Whole(Some(A::read_value(value.bytes()?)?)),
        };
        Some(Self { asked, part, taken })
    }

    fn view<'a>(&'a self, by: &'a A, ask: &Ask<'_>) -> A::View<'a> {
        match &self.part {
            FoundPart::Whole(stored) => by.view(stored.as_ref(), self.asked),
            FoundPart::Report(report) => by.view_report(report, ask, self.asked),
        }
    }

    /// Takes what a spend takes. Returns how much that is, by the count of scripts, and the state before. Returns `None` for
    /// a part of a state.
    fn spend(&mut self, by: &A, ask: &Ask<'_>) -> Option<(u32, Self)> {
        let FoundPart::Whole(stored) = &mut self.part else {
            return None;
        };
        let judged = by.judge(ask, by.view(stored.as_ref(), self.asked), self.asked);
        let counted = match A::COUNTS_UNITS {
            true => A::units(&judged.state),
            false => 1,
        };
        let taken = if judged.passed { counted } else { 0 };
        let before = Self {
            asked: self.asked,
            part: FoundPart::Whole(stored.clone()),
            taken: A::COUNTS_UNITS.then_some(taken),
        };
        if judged.passed {
            *stored = by.keep(stored.take(), ask.action, judged.state, self.asked);
        }
        Some((taken, before))
    }

    fn agrees(&self, state: &A::State) -> bool {
        self.taken.is_none_or(|taken| taken == A::units(state))
    }

    fn by_clock(mut self, from: u64, to: u64) -> Self {
        if let FoundPart::Whole(stored) = &mut self.part {
            *stored = stored
                .take()
                .map(|stored| A::stored_by_clock(stored, from, to));
        }
        self
    }
}

impl Algorithm {
    /// Returns the verb for scripts, which says what to do to the bucket. Without an action, a script only reports the stored
    /// state.
    pub(crate) fn verb(&self, ask: &Ask<'_>, votes: bool) -> &'static str {
        let verb = match ask.action {
            Action::Spend if votes => Some("spend"),
            Action::Spend => Some("offer"),
            Action::Debit => Some("debit"),
            Action::Refund => each!(self, by => by.refund_verb(ask)),
            Action::Renew => self.mark(ask).map(|_| "renew"),
            Action::Reset => Some("reset"),
            Action::Probe if votes => Some("vote"),
            Action::Probe | Action::ProbeDebit | Action::Keep => None,
        };
        verb.unwrap_or("look")
    }

    /// Returns the letter of the algorithm in the arguments of scripts.
    pub(crate) fn script_letter(&self) -> &'static str {
        each_as!(self, (By, This, _) => By::LETTER)
    }

    /// Returns whether spends have a script of their own.
    pub(crate) fn has_spends_script(&self) -> bool {
        each_as!(self, (By, This, _) => By::HAS_SPENDS_SCRIPT)
    }

    /// Returns the arguments of a request for scripts, which requests of other clients share.
    pub(crate) fn script_arguments(&self, ask: &Ask<'_>) -> Arguments {
        each!(self, by => by.arguments(ask))
    }

    /// Returns the mark of the charge that a refund gives back or a renewal moves, if the script needs it.
    pub(crate) fn mark(&self, ask: &Ask<'_>) -> Option<u64> {
        each_as!(self, (By, This, _) => By::mark(ask))
    }

    /// Returns whether values are so small that they are read, written and answered as a whole.
    pub(crate) fn has_small_values(&self) -> bool {
        each!(self, by => by.is_small())
    }

    /// Returns the number of units that a spend takes at most, if scripts count them.
    pub(crate) fn most_taken(&self, ask: &Ask<'_>) -> Option<u32> {
        each_as!(self, (By, This, _) => By::COUNTS_UNITS).then_some(ask.cost)
    }

    /// Returns the amount of data that a script reads and answers besides its arguments, counted in arguments.
    pub(crate) fn answered(&self, ask: &Ask<'_>) -> usize {
        each!(self, by => by.answered(ask))
    }

    /// Returns whether a charge can be undone.
    pub(crate) fn can_refund(&self) -> bool {
        each_as!(self, (By, This, _) => !By::CHARGE_KINDS.is_empty())
    }

    /// Returns the view of a state that a script has found, or of an unused bucket.
    pub(crate) fn see_found<'a>(
        &'a self,
        found: Option<&'a Found>,
        ask: &Ask<'_>,
        now: Timestamp,
    ) -> View<'a> {
        let seen = found.and_then(
            |found| map_each!((found, self), (found, by) => ViewIn { by, view: found.view(by, ask) }),
        );
        seen.unwrap_or_else(|| self.see(None, now))
    }

    /// Takes what a spend takes from a state. Returns how much that is, by the count of scripts, and the state before.
    /// Returns `None` for a part of a state.
    pub(crate) fn spend_found(&self, ask: &Ask<'_>, found: &mut Found) -> Option<(u32, Found)> {
        let mut taken = 0;
        let before = map_each!((self, found), (by, found) => {
            let (units, before) = found.spend(by, ask)?;
            taken = units;
            before
        });
        before.map(|before| (taken, before))
    }
}

impl Found {
    /// Reads the value that a script reports of a bucket. `taken` is the number of units that it has taken or given back, if
    /// the script reports that.
    pub(crate) fn read<R: Replied>(
        algorithm: AlgorithmKey,
        value: &R,
        taken: Option<u32>,
        now: u64,
    ) -> Option<Self> {
        keyed!(algorithm, (By, This) => FoundIn::read(value, taken, now).map(This))
    }

    /// Returns whether the script has taken as many units as this state shows.
    pub(crate) fn agrees(&self, state: &State) -> bool {
        each!((self, state), (found, state) => found.agrees(state), _ => true)
    }

    /// Converts the state to another clock, so that it is as far from `to` as it was from `from`.
    pub(crate) fn by_clock(self, from: Timestamp, to: Timestamp) -> Self {
        let (from, to) = (from.as_micros(), to.as_micros());
        map_each!(self, found => found.by_clock(from, to))
    }
}
