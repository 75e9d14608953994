/// A change to a bucket's units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    #[default]
    Nothing,
    /// Takes `units` after the first `after` ones: now, or at the earlier instant of a debit.
    Take { after: u32, units: u32 },
    /// Gives back `units` that come after the first `after` ones.
    GiveBack { after: u32, units: u32 },
    /// Moves `units` that come after the first `after` ones to now. There, they come after the first `to` others.
    Renew { after: u32, units: u32, to: u32 },
}

impl Change {
    pub(crate) fn units(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Take { units, .. } | Self::GiveBack { units, .. } | Self::Renew { units, .. } => {
                units
            }
        }
    }
}
