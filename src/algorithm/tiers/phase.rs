use super::tier::Span;

/// The phase of a tier at an instant.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It can be entered.
    #[default]
    Inactive,
    /// It has been entered, and decides, unless a higher one is active.
    Active,
    /// It cannot be entered.
    Cooldown,
}

impl Phase {
    pub(super) fn of(span: &Span, entry: Option<u64>, now: u64) -> Self {
        let Some(entry) = entry else {
            return Self::Inactive;
        };
        match now.saturating_sub(entry) {
            age if age <= span.active => Self::Active,
            age if age <= span.active.saturating_add(span.cooldown) => Self::Cooldown,
            _ => Self::Inactive,
        }
    }
}
