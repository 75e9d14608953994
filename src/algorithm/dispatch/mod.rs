//! The algorithm of a bucket: each question is passed on to the one that the bucket has. It lists all
//! algorithms, as do `each`, `algorithm_key`, `charge` and `limit_error`. No algorithm imports it.

mod algorithm;
mod bound;
mod charge;
#[cfg(feature = "failure-policy")]
mod debt;
mod denial;
#[cfg(feature = "failure-policy")]
mod follow;
mod history;
#[cfg(feature = "tokio")]
mod lease;
mod notation;
mod row;
#[cfg(feature = "redis")]
mod scripted;
mod shown;
mod state;
mod stored;

#[cfg(feature = "failure-policy")]
pub(crate) use self::debt::Ledger;
#[cfg(feature = "redis")]
pub(crate) use self::scripted::Found;
pub use self::{
    algorithm::Algorithm,
    stored::{Stored, StoredError},
};
pub(crate) use self::{
    denial::Denied,
    history::{HistoryTerms, HistoryUse},
    shown::{ClientFigures, ClientTerms, ShownBucket},
    state::{State, View},
};
