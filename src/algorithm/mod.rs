//! How a limit counts. Each algorithm is a folder, which holds everything that is true of it alone. This module is the
//! one place that knows all of them.
//!
//! An algorithm is pure: it has no clock, no I/O and no floating point. [`Each`](each::Each) holds one of the algorithms, or
//! something that belongs to one: a state, a charge. The rest of the crate asks [`Algorithm`], and names none.
//!
//! Each folder implements these traits, one in each file of the same name:
//!
//! | trait | says |
//! |---|---|
//! | `counting::Counting` | how buckets are stored, judged and shown, and what receipts give back |
//! | `notation::Notation` | how a limit is written in text and in files |
//! | `bound::Bounded` | what a limit admits and permits |
//! | `denial::Denying` | which denials a process can remember |
//! | `lease::Leasing` | what can be charged in advance |
//! | `follow::Following`, `debt::Owing` | how a process decides without its store, and what it owes afterwards |
//! | `scripted::Scripted` | what scripts on Redis are asked, and what they find |
//!
//! To add an algorithm, write its folder, and add it to `Each`, [`AlgorithmKey`] and [`AlgorithmKey::ALL`]; the compiler
//! lists the rest.

mod action;
mod algorithm_key;
mod bound;
pub mod concurrency;
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
mod limit_error;
mod line;
mod notation;
pub mod quota;
mod refill;
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
pub(crate) use self::scripted::{Argument, Arguments, Found, Replied};
pub(crate) use self::{
    action::{Action, Ask, Refund},
    bound::{Asked, NoTokenBucket, NotPermitted, Purpose},
    counting::{Judged, TakenPart},
    denial::Denied,
    each::Charge,
    history::{HistoryTerms, HistoryUse},
    notation::{AlgorithmValues, FieldReader, ListedFields, NotationError},
    refill::Refill,
    row::RowValue,
    shown::{ClientFigures, ClientTerms, ShownBucket},
    state::{State, View},
    time::{FOREVER, NEVER},
};
pub use self::{
    algorithm_key::AlgorithmKey,
    duration::{format_duration, parse_duration},
    each::Algorithm,
    limit_error::{LimitError, LimitErrorKind},
    stored::{Stored, StoredError},
};
#[cfg(feature = "failure-policy")]
pub(crate) use self::{
    debt::{Ledger, Owed},
    follow::Repeat,
    share::Share,
    ticks::Tat,
};
