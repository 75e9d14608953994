use super::source::Source;
use crate::clock::Timestamp;

/// The parts of a batch's result that each member's decision depends on.
#[derive(Clone, Copy)]
pub(crate) struct DecisionContext {
    pub(crate) now: Timestamp,
    /// Whether the batch passes.
    pub(crate) passes: bool,
    pub(crate) source: Source,
}
