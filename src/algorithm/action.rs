//! What a transaction asks of its bucket.

use super::charge::Charge;

/// An action on a bucket, without its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Finds out whether the cost fits, and charges nothing.
    Probe,
    /// Finds out what a debit would leave, and charges nothing.
    ProbeDebit,
    /// Charges the cost if it fits.
    Spend,
    /// Charges the cost, even into debt.
    Debit,
    /// Gives the cost back.
    Refund,
    /// Moves a charge to now, so that it counts for longer.
    Renew,
    /// Leaves the bucket as it is.
    Keep,
    /// Makes the bucket full.
    Reset,
}

impl Action {
    /// Returns whether the action changes the bucket.
    #[inline]
    pub(crate) const fn writes(self) -> bool {
        matches!(
            self,
            Self::Spend | Self::Debit | Self::Refund | Self::Renew | Self::Reset
        )
    }
}

/// An action on a bucket, with its cost and its terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) action: Action,
    /// In tokens or units.
    pub(crate) cost: u32,
    /// The smallest acceptable grant of a group request.
    pub(crate) min_cost: u32,
    /// Whether the cost may wait in the limit's line.
    pub(crate) joins_line: bool,
    /// Whether a debit is charged partially if the bucket has no room for all of it. Otherwise, such a debit is denied.
    pub(crate) saturates: bool,
    /// How long ago, in microseconds, the units of a debit were taken. As many are charged as there is room for.
    pub(crate) ago_us: u64,
    /// The units that a refund gives back, or that a renewal moves.
    pub(crate) refund: Refund<'a>,
    /// Whether anybody needs the figures of a charge that passes. Those of a denial are always computed.
    pub(crate) is_shown: bool,
}

impl Ask<'_> {
    /// Asks for the figures of one unit.
    pub(super) const FIGURES: Ask<'static> = Ask {
        action: Action::Keep,
        cost: 1,
        min_cost: 1,
        joins_line: false,
        saturates: false,
        ago_us: 0,
        refund: Refund::Nothing,
        is_shown: true,
    };

    /// Asks for a charge.
    #[inline(always)]
    pub(crate) const fn spend(cost: u32, joins_line: bool) -> Self {
        Self {
            action: Action::Spend,
            cost,
            min_cost: cost,
            joins_line,
            saturates: false,
            ago_us: 0,
            refund: Refund::Cost,
            is_shown: true,
        }
    }
}

/// The units that a refund gives back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refund<'a> {
    /// The cost, whoever was charged for it.
    Cost,
    /// One charge.
    Charge(&'a Charge),
    /// Nothing: the charge was made elsewhere.
    Nothing,
}
