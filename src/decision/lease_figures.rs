/// What leases add to an answer, for a limit that has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseFigures {
    /// Whether the request was decided with units that this process holds in advance. The state is then the one that the
    /// store had last.
    pub(crate) decides: bool,
    /// The units that this process holds in advance. The state counts them as charged.
    pub(crate) held: u32,
    /// The part of the limit that leases reserve. The state is that of the rest.
    pub(crate) reserved: u32,
}

impl LeaseFigures {
    /// The figures of a limit without leases.
    pub(crate) const NONE: Self = Self {
        decides: false,
        held: 0,
        reserved: 0,
    };
}
