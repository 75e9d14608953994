//! What an algorithm is: the trait that each of them implements.

use std::{fmt, hash::Hash, num::NonZeroU32, time::Duration};

use super::{
    action::{Action, Ask},
    algorithm_key::AlgorithmKey,
    refill::Refill,
    row_value::RowValue,
    ticks::{Ticks, Wait},
};
use crate::varint::Malformed;

/// A way to count. Times are microseconds since the Unix epoch, waits are microseconds from `now`.
pub(crate) trait Counting: Clone + fmt::Debug + Eq + Hash + Sized {
    /// The part of bucket keys that stands for the algorithm.
    const KEY: AlgorithmKey;

    /// The first byte of a stored state, without its version.
    const KIND: u8;

    /// The stored state of a bucket that is not full.
    type Stored: Clone + Default + fmt::Debug + Eq + 'static;

    /// The part of that on which one request depends.
    type View<'a>: Clone + fmt::Debug;

    /// The state of a bucket in an answer.
    type State: Copy + fmt::Debug + Eq + Hash;

    /// A charge in a receipt.
    type Charge: Copy + fmt::Debug + Eq + Hash;

    // Storage.

    /// Returns the view of a stored state, or of an unused bucket.
    fn view<'a>(&self, stored: Option<&'a Self::Stored>, now: u64) -> Self::View<'a>;

    /// Returns the stored state after an action that writes, and has led to `state`.
    fn keep(
        &self,
        stored: Option<Self::Stored>,
        action: Action,
        state: Self::State,
        now: u64,
    ) -> Option<Self::Stored>;

    /// Returns the instant from which the bucket is like an unused one, or `u64::MAX` if there is none.
    fn lapses_at(&self, stored: &Self::Stored) -> u64;

    /// Returns whether an action changes what is stored, if it has passed and led to `state`.
    fn changes(action: Action, state: &Self::State) -> bool {
        let _ = state;
        action.writes()
    }

    /// Returns the memory that a stored state takes beyond its own size, in bytes, with what the allocator adds.
    fn allocated_bytes(stored: &Self::Stored) -> usize {
        let _ = stored;
        0
    }

    /// Writes a stored state as bytes, in one form.
    fn write(stored: &Self::Stored, bytes: &mut Vec<u8>);

    /// Reads what [`write`](Self::write) has written.
    fn read(bytes: &mut &[u8]) -> Result<Self::Stored, Malformed>;

    // Storage in memory: a row, or a history.

    /// Whether a state fits into a row. Otherwise, it is a history.
    const FITS_ROW: bool;

    /// The limit of a history, which has to be remembered with it.
    type Terms: Clone + fmt::Debug + Eq;

    /// Returns the terms of a history; `None` if a state fits into a row.
    fn terms(&self) -> Option<Self::Terms> {
        None
    }

    /// Returns the most bytes that a history takes beyond its own size, and what to lower for fewer.
    fn largest_history(&self) -> Option<(usize, &'static str)> {
        None
    }

    /// Does the same as [`keep`](Self::keep) in place. What is left of a history can be as that of an unused bucket.
    fn change(&self, history: &mut Self::Stored, action: Action, state: Self::State, now: u64) {
        let _ = (history, action, state, now);
    }

    /// Returns the used units of a history, those of its limit, and the time, in µs, until the used ones change by
    /// themselves.
    fn used_part(&self, state: &Self::State) -> (u32, u32, u64) {
        let _ = state;
        (0, 1, 0)
    }

    /// Returns the view of a state in a row.
    fn view_row<'a>(&'a self, value: RowValue, now: u64) -> Self::View<'a> {
        let _ = value;
        self.view(None, now)
    }

    /// Returns the state as the value of a row.
    fn row(&self, state: Self::State) -> RowValue {
        let _ = state;
        RowValue::FULL
    }

    // Judgement.

    /// Returns what the action leads to, if the batch passes.
    fn judge(&self, ask: &Ask<'_>, view: Self::View<'_>, now: u64) -> Judged<Self::State>;

    /// Whether the answer to a probe has the unchanged state of the bucket. If not, only [`Action::Keep`] has it.
    const PROBES_KEEP_STATE: bool = true;

    /// Whether a state holds the wait of the cost that was asked for, which is unknown for other costs.
    const WAITS_ARE_STATE: bool = false;

    /// Returns the state of the bucket if nothing is taken from it.
    fn untouched(&self, ask: &Ask<'_>, view: Self::View<'_>, now: u64) -> Self::State;

    /// Converts a state to another clock, so that it is as far from `to` as it was from `from`.
    fn by_clock(state: Self::State, from: u64, to: u64) -> Self::State {
        let _ = (from, to);
        state
    }

    // Figures.

    /// Returns the state to show: that of a probe includes its cost, if it would pass.
    fn probed(&self, ask: &Ask<'_>, state: Self::State, now: u64) -> Self::State {
        let _ = (ask, now);
        state
    }

    /// Returns a state as if the bucket also held units that are charged in advance.
    fn with_held(&self, state: Self::State, now: u64, held: u32) -> Self::State {
        let _ = (now, held);
        state
    }

    /// Returns the number of units that were taken or given back, if it can differ from the cost.
    fn changed_units(state: &Self::State) -> Option<u32> {
        let _ = state;
        None
    }

    /// Returns the charge and the amount for a receipt; `None` if it cannot be undone.
    fn charge(shown: &ShownIn<Self>) -> Option<(Self::Charge, u32)>;

    /// Returns the amount that was granted.
    fn granted(shown: &ShownIn<Self>) -> u32 {
        let taken = Self::changed_units(&shown.state).unwrap_or_else(|| shown.taken());
        taken * u32::from(shown.is_taken)
    }

    /// Returns how many of `cost` units a refund has given back, if it has given back any.
    fn given_back(shown: &ShownIn<Self>, cost: u32) -> u32 {
        Self::changed_units(&shown.state).unwrap_or(cost)
    }

    /// Returns the amount that passes at once.
    fn remaining(shown: &ShownIn<Self>) -> u32;

    /// Returns what passes without being refused: what remains, and the room in the line.
    fn room(shown: &ShownIn<Self>) -> u32 {
        Self::remaining(shown)
    }

    /// Returns the time until the same cost would pass.
    fn wait(shown: &ShownIn<Self>) -> Wait;

    /// Returns the time until the bucket is like an unused one.
    fn reset_after(shown: &ShownIn<Self>) -> Wait;

    /// Returns the time until there is one more unit to spend; `None` if the bucket is full.
    fn next_unit(shown: &ShownIn<Self>) -> Option<Wait> {
        Self::next_room(shown).1
    }

    /// Returns what a client is told: [`room`](Self::room), and the time until it is more or is by another tier.
    fn next_room(shown: &ShownIn<Self>) -> (u32, Option<Wait>);

    /// Returns the amount that passes at once and the time in which an empty bucket fills, with the room in a line and the
    /// part of the limit that leases reserve.
    fn allowance(shown: &ShownIn<Self>) -> (u32, Duration);

    /// Returns how units come back; `None` if that depends on more than the limit, or if the cost may wait in line.
    fn refill(shown: &ShownIn<Self>) -> Option<Refill> {
        let _ = shown;
        None
    }

    /// Returns whether all buckets have the same [`allowance`](Self::allowance), at any time.
    fn is_usual(shown: &ShownIn<Self>) -> bool {
        let _ = shown;
        true
    }

    /// Returns the state `us` later, if there were no other requests.
    fn later(&self, state: Self::State, us: u64) -> Self::State {
        let _ = us;
        state
    }

    /// Returns the wait of the cost in line.
    fn delay(shown: &ShownIn<Self>) -> Wait {
        let _ = shown;
        Wait::default()
    }

    /// Returns the time until the same cost would pass if nothing is given back and nothing is renewed.
    #[cfg(feature = "tokio")]
    fn expires_after(shown: &ShownIn<Self>) -> Wait {
        Self::wait(shown)
    }

    /// Returns whether the limit has a line.
    fn has_line(&self) -> bool {
        false
    }

    // Receipts.

    /// Splits a charge of `rest` units and `part` more, which were charged last. Returns the charge of the part.
    fn split(charge: &mut Self::Charge, rest: u32, part: u32) -> Self::Charge {
        let _ = (rest, part);
        *charge
    }

    /// The first bytes of a charge as text.
    const CHARGE_KINDS: &'static [u8];

    /// Writes a charge: its kind, and its numbers.
    fn charge_numbers(charge: &Self::Charge) -> (u8, Vec<u64>);

    /// Reads the numbers of a charge.
    fn read_charge(kind: u8, bytes: &mut &[u8]) -> Option<Self::Charge>;
}

/// A bucket of one algorithm, with its state after a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShownIn<A: Counting> {
    pub(crate) by: A,
    pub(crate) state: A::State,
    /// The time of the decision.
    pub(crate) now: u64,
    pub(crate) cost: u32,
    /// Whether the cost is taken.
    pub(crate) is_taken: bool,
    /// The part of the cost that is taken, if not all of it is.
    pub(crate) part: Option<TakenPart>,
    /// Whether the limit has a line and the cost may wait in it.
    pub(crate) may_wait: bool,
}

impl<A: Counting> ShownIn<A> {
    /// Returns the amount that is taken for the cost.
    pub(super) fn taken(&self) -> u32 {
        self.part.map_or(self.cost, TakenPart::cost)
    }
}

/// What an action leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judged<S> {
    /// The state afterwards.
    pub(crate) state: S,
    /// Whether the cost fits, or something is given back. A debit fits, unless its bucket has no room for it.
    pub(crate) passed: bool,
    /// What a debit takes, if that is less than its cost, and if the state does not show it.
    pub(crate) taken: Option<TakenPart>,
}

/// The part of its cost that a debit takes from a bucket which cannot hold more debt. It is rare, and part of each answer, so
/// it is small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TakenPart {
    cost: u32,
    short_us: u64,
    /// The fraction and one.
    short_frac: NonZeroU32,
}

impl TakenPart {
    /// The part of a debit that has taken so many tokens, rounded up, in less time than theirs by `short`.
    pub(super) fn new(cost: u32, short: Ticks) -> Self {
        Self {
            cost,
            short_us: short.us,
            short_frac: NonZeroU32::MIN.saturating_add(short.frac),
        }
    }

    pub(crate) const fn cost(self) -> u32 {
        self.cost
    }

    /// By how much the time taken from a GCRA bucket is shorter than the time of the tokens.
    pub(super) const fn short(self) -> Ticks {
        Ticks {
            us: self.short_us,
            frac: self.short_frac.get() - 1,
        }
    }
}

impl<S> Judged<S> {
    #[inline(always)]
    pub(super) fn new(state: S, passed: bool) -> Self {
        Self {
            state,
            passed,
            taken: None,
        }
    }

    /// Returns the same result with another form of the state.
    #[inline(always)]
    pub(super) fn map<T>(self, form: impl FnOnce(S) -> T) -> Judged<T> {
        Judged {
            state: form(self.state),
            passed: self.passed,
            taken: self.taken,
        }
    }
}
