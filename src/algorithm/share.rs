//! The part of a limit that one process can use on its own.

/// The part of each limit that one process can use while the store does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(super) part: u32,
    pub(super) of: u32,
}

impl Share {
    pub(crate) const WHOLE: Self = Self { part: 1, of: 1 };

    /// # Panics
    ///
    /// If the share is 0, or more than 1.
    #[track_caller]
    pub(crate) const fn new(part: u32, of: u32) -> Self {
        assert!(
            0 < part && part <= of,
            "a share is a part of the whole: use `share(1, 4)` for a quarter"
        );
        Self { part, of }
    }

    /// Returns a number that no other share has.
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.part) << 32 | u64::from(self.of)
    }

    /// Returns the smaller one.
    pub(crate) fn min(self, other: Self) -> Self {
        let [own, others] = [[self.part, other.of], [other.part, self.of]]
            .map(|[a, b]| u64::from(a) * u64::from(b));
        if own <= others { self } else { other }
    }

    /// Returns the share of a number, rounded up.
    pub(super) fn of(self, whole: u32) -> u32 {
        let part = (u64::from(whole) * u64::from(self.part)).div_ceil(self.of.into());
        u32::try_from(part).unwrap_or(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Algorithm, gcra::Gcra};

    #[test]
    fn share_is_of_the_burst_and_of_the_rate() {
        let limit = Gcra::new(20, 10, std::time::Duration::from_secs(1)).unwrap();
        let of = |part, of| {
            let share = Share::new(part, of).algorithm(&Algorithm::Gcra(limit));
            let Algorithm::Gcra(gcra) = share else {
                panic!("it has no tiers")
            };
            (gcra.burst(), gcra.count(), gcra.period().as_micros())
        };
        assert_eq!(of(1, 1), (20, 10, 1_000_000));
        assert_eq!(of(1, 4), (5, 10, 4_000_000));
        assert_eq!(of(2, 3), (14, 10, 1_500_000));
        assert_eq!(of(1, 100), (1, 10, 100_000_000));
    }
}
