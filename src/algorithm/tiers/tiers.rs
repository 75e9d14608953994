use std::sync::Arc;

use super::{
    tier::{MAX_SLIDING, Span, Tier},
    tiers_error::TiersError,
};
use crate::algorithm::{
    limit_error::{LimitError, NotationError},
    time::NEVER,
};

/// The tiers of a limit, validated, lowest first. Cheap to clone. The [module docs](super) have an example.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tiers(Arc<[Span]>);
impl Tiers {
    /// The most tiers of a bucket.
    pub const MAX: usize = 16;

    /// The highest limit of a tier whose window slides: each of its units is remembered.
    pub const MAX_SLIDING: u32 = MAX_SLIDING;

    /// Validates tiers, lowest first.
    ///
    /// # Errors
    ///
    /// If there are none or more than [`MAX`](Self::MAX); if a limit, a window or an active period is zero; if a duration
    /// is not a whole number of microseconds or above 2⁵¹ of them (71 years) without being [`Tier::FOREVER`]; if a
    /// window slides with a limit above [`MAX_SLIDING`](Self::MAX_SLIDING).
    pub fn new(tiers: impl IntoIterator<Item = Tier>) -> Result<Self, LimitError> {
        Self::checked(tiers).map_err(|error| LimitError::new(NotationError::Tiers(error)))
    }

    pub(super) fn checked(tiers: impl IntoIterator<Item = Tier>) -> Result<Self, TiersError> {
        let tiers = tiers.into_iter().enumerate();
        let spans = tiers.map(|(i, tier)| {
            let span = Span::new(&tier, i == 0);
            span.map_err(|mistake| TiersError::Tier { tier: i, mistake })
        });
        let spans = spans.collect::<Result<Arc<_>, _>>()?;
        match spans.len() {
            0 => Err(TiersError::None),
            1..=Self::MAX => Ok(Self(spans)),
            more => Err(TiersError::TooMany(more)),
        }
    }

    /// The tiers, lowest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Tier> {
        self.0.iter().map(Span::tier)
    }

    /// The most units that can ever be granted at once: the sum of all tiers' limits.
    #[must_use]
    pub fn max_units(&self) -> u32 {
        let limits = self.0.iter().map(|span| span.limit);
        limits.fold(0, u32::saturating_add)
    }

    /// The tiers above the lowest that can be entered again before their window has passed, and so grant up to twice
    /// their limit within one window. A limit of 1 does not count: its unit leaves with the tier.
    pub fn short_cooldowns(&self) -> impl Iterator<Item = usize> {
        let upper = self.0.iter().enumerate().skip(1);
        let short = upper.filter(|(_, span)| {
            let ends = span.active.saturating_add(span.cooldown) != NEVER;
            let outlasts = span.cooldown < span.window;
            // The only unit is the one that enters the tier.
            let is_single = span.limit == 1 && span.active >= span.window;
            ends && outlasts && !is_single
        });
        short.map(|(tier, _)| tier)
    }

    pub(crate) fn spans(&self) -> &[Span] {
        &self.0
    }

    /// Returns the same tiers with other limits.
    #[cfg(feature = "failure-policy")]
    pub(super) fn with_limits(&self, of: impl Fn(u32) -> u32) -> Self {
        let change = |span: &Span| Span {
            limit: of(span.limit),
            ..*span
        };
        Self(self.0.iter().map(change).collect())
    }
}
