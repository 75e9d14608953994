//! How a limit counts. Each algorithm is a folder, which holds everything that is true of it alone. This module is the
//! one place that knows all of them.
//!
//! An algorithm is pure: it has no clock, no I/O and no floating point. It implements [`Counting`], and [`Each`] holds one
//! of the algorithms, or what belongs to one: a state, a charge. The rest of the crate asks [`Algorithm`], and names none.
//!
//! To add one, write its folder, and add it to [`Each`], [`AlgorithmKey`] and [`AlgorithmKey::ALL`]; the compiler lists the
//! rest.

mod action;
mod algorithm_key;
mod bound;
mod counting;
#[cfg(feature = "failure-policy")]
mod debt;
mod denial;
mod duration;
mod each;
#[cfg(feature = "failure-policy")]
mod follow;
pub mod gcra;
mod history;
#[cfg(feature = "tokio")]
mod lease;
mod line;
mod notation;
pub mod quota;
mod row;
#[cfg(feature = "redis")]
mod scripted;
#[cfg(feature = "failure-policy")]
mod share;
mod shown;
mod state;
mod stored;
mod ticks;
pub mod tiers;
mod time;
pub mod window;

#[cfg(feature = "redis")]
pub(crate) use self::scripted::{Argument, Found, GroupScript, Replied};
pub(crate) use self::{
    action::{Action, Ask, Refund},
    bound::{Asked, NoTokenBucket, NotPermitted, Purpose},
    counting::{Judged, TakenPart},
    denial::Denied,
    each::Charge,
    history::{HistoryTerms, HistoryUse},
    notation::{AlgorithmValues, FieldReader, ListedFields, NotationError},
    row::RowValue,
    shown::{ClientFigures, ShownBucket, ShownIn},
    state::{State, View},
    time::{FOREVER, NEVER},
};
pub use self::{
    algorithm_key::AlgorithmKey,
    duration::{DurationError, format_duration, parse_duration},
    each::Algorithm,
    stored::{Stored, StoredError},
};
#[cfg(feature = "failure-policy")]
pub(crate) use self::{
    debt::{Ledger, Owed},
    follow::Repeat,
    share::Share,
    ticks::Tat,
};
