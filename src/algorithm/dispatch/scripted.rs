//! What scripts are asked and what they find, whatever the algorithm of the bucket.

use super::{
    algorithm::{Algorithm, each, each_as, keyed, map_each},
    state::{State, View, ViewIn},
};
use crate::{
    algorithm::{
        action::{Action, Ask},
        algorithm_key::AlgorithmKey,
        concurrency::Concurrency,
        counting::Counting,
        each::Each,
        gcra::Gcra,
        quota::Quota,
        scripted::{Arguments, Replied, Scripted},
        tiers::Tiers,
        window::Window,
    },
    clock::Timestamp,
};

/// The state that a script has found.
pub(crate) type Found =
    Each<FoundIn<Gcra>, FoundIn<Tiers>, FoundIn<Window>, FoundIn<Quota>, FoundIn<Concurrency>>;

/// The state that a script has found for one algorithm, as far as one request depends on it.
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
