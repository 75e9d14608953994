//! How units come back, as clients are told.

/// How the units of a limit come back, for a client that stays below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refill {
    /// One after the other: `count` units in `period_us` microseconds.
    Steady { count: u32, period_us: u64 },
    /// Each of them this many microseconds after it was taken, or earlier.
    Windowed { us: u64 },
}

impl Refill {
    /// Returns the period or the window, in microseconds.
    pub(crate) fn us(self) -> u64 {
        match self {
            Self::Steady { period_us, .. } => period_us,
            Self::Windowed { us } => us,
        }
    }
}
