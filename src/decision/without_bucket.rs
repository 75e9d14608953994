use super::decision::Decision;
use crate::transaction::Operation;

/// The result of a transaction that asks nothing of a bucket.
#[derive(Clone, Copy)]
pub(crate) enum WithoutBucket {
    /// No limit is configured.
    Off,
    /// It cannot pass, in any state.
    Refused { votes: bool, shadow: bool },
}

impl WithoutBucket {
    /// Returns whether this result denies its batch.
    pub(crate) fn refuses(self, operation: Operation) -> bool {
        let asks = matches!(operation, Operation::Check | Operation::Spend);
        asks && matches!(self, Self::Refused { votes: true, .. })
    }

    /// Returns the decision for this result.
    #[cold]
    pub(crate) fn decision(self, operation: Operation) -> Decision {
        match self {
            Self::Off => Decision::NOT_LIMITED,
            Self::Refused { votes, shadow } => Decision::refused(operation, votes, shadow),
        }
    }
}
