//! How a limit counts. Each algorithm is a folder, which holds everything that is true of it alone. It is pure: it has no
//! clock, no I/O and no floating point.
//!
//! [`Each`](each::Each) holds one of the algorithms, or something that belongs to one: a state, a charge. The folder
//! `dispatch` passes each question on to the algorithm of a value. The rest of the crate asks [`Algorithm`], and names none,
//! except for the constructors of [`Limit`](crate::Limit) and the default of a bucket's key.
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
//! To add an algorithm, write its folder, and add it to `Each`, [`AlgorithmKey`], [`AlgorithmKey::ALL`], the macros in
//! `dispatch/algorithm.rs`, and its errors to [`NotationError`]. The compiler then lists the aliases of `Each`, which get
//! another parameter: [`Algorithm`], [`Charge`] and those in `dispatch`.

mod action;
mod algorithm_key;
mod bound;
mod charge;
pub mod concurrency;
mod counting;
#[cfg(feature = "failure-policy")]
mod debt;
mod denial;
mod dispatch;
mod duration;
mod duration_error;
mod each;
#[cfg(feature = "failure-policy")]
mod follow;
pub mod gcra;
#[cfg(feature = "tokio")]
mod lease;
mod limit_error;
mod limit_error_kind;
mod line;
mod notation;
pub mod quota;
mod refill;
mod row_value;
#[cfg(feature = "redis")]
mod scripted;
#[cfg(feature = "failure-policy")]
mod share;
mod ticks;
pub mod tiers;
mod time;
pub mod window;

pub(crate) use self::{
    action::{Action, Ask, Refund},
    bound::{Asked, NoTokenBucket, NotPermitted, Purpose},
    charge::Charge,
    counting::{Judged, TakenPart},
    dispatch::{
        ClientFigures, ClientTerms, Denied, HistoryTerms, HistoryUse, ShownBucket, State, View,
    },
    limit_error::NotationError,
    notation::{FieldReader, ListedFields, WrittenFields},
    refill::Refill,
    row_value::RowValue,
    time::FOREVER,
};
pub use self::{
    algorithm_key::AlgorithmKey,
    dispatch::{Algorithm, Stored, StoredError},
    duration::{format_duration, parse_duration},
    limit_error::LimitError,
    limit_error_kind::LimitErrorKind,
};
#[cfg(feature = "failure-policy")]
pub(crate) use self::{debt::Owed, dispatch::Ledger, follow::Repeat, share::Share, ticks::Tat};
#[cfg(feature = "redis")]
pub(crate) use self::{
    dispatch::Found,
    scripted::{Argument, Arguments, Replied},
};
