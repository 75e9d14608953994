//! What the scripts of a server decide: their arguments for each algorithm, and the states that they find.
//!
//! Each algorithm has its arithmetic in Lua. It says what to ask of a bucket, and reads the reply.

use std::fmt;

use smallvec::SmallVec;

use super::{action::Ask, counting::Counting};

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
