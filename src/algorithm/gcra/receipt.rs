use super::gcra::Gcra;
use crate::algorithm::ticks::{Tat, Ticks};

/// A charge as a receipt remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GcraCharge {
    /// The limit's parameters.
    pub(crate) gcra: Gcra,
    /// The theoretical arrival time right after the charge.
    pub(crate) tat: Tat,
    /// By how much the charge was shorter than the time of its tokens, because the debt had stopped growing.
    pub(crate) short: Ticks,
}
