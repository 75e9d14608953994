/// A charge as a receipt remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WindowCharge {
    /// The instant at which the units were taken.
    pub(crate) at: u64,
}
