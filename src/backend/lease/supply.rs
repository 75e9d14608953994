//! What the store is expected to have for a charge in advance.

/// The most calls that count as saved.
const MOST_SAVED: u32 = 16;

/// What the store is expected to have left of a bucket.
///
/// A charge of more than that is in vain, and a request that has asked for it has to ask again. So half of what the last
/// answer left can be charged: other processes can take as much. What has come back after that answer can be charged, and
/// the other half, only as long as the units of this bucket have saved more calls than such charges and returns have
/// wasted. So a bucket that is used up makes no more calls than one without leases.
#[derive(Default)]
pub(super) struct Supply {
    /// What the last answer left, at its time; `None` if there was none under the limit in force.
    left: Option<u32>,
    /// The calls that were saved and not wasted since, up to a maximum.
    saved: u32,
}

impl Supply {
    /// Records what an answer of the store left.
    pub(super) fn hear(&mut self, left: u32) {
        self.left = Some(left);
    }

    /// Forgets what the store left, because the limit has changed.
    pub(super) fn forget(&mut self) {
        self.left = None;
    }

    /// Counts a request that needed no call.
    pub(super) fn save(&mut self) {
        self.saved = (self.saved + 1).min(MOST_SAVED);
    }

    /// Counts a charge in vain, or a return.
    pub(super) fn waste(&mut self) {
        self.saved = self.saved.saturating_sub(1);
    }

    /// Returns how much can be charged, if by the last answer there should be this much `now`.
    pub(super) fn expected(&self, now: u32) -> u32 {
        match self.left {
            None => u32::MAX,
            Some(_) if self.saved > 0 => now,
            Some(left) => (left / 2).min(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_half_of_the_last_answer_is_expected_unless_calls_were_saved() {
        let mut supply = Supply::default();
        assert_eq!(supply.expected(0), u32::MAX, "nothing is known");
        supply.hear(2);
        assert_eq!([supply.expected(5), supply.expected(0)], [1, 0]);
        (0..2 * MOST_SAVED).for_each(|_| supply.save());
        for _ in 0..MOST_SAVED {
            assert_eq!([supply.expected(5), supply.expected(0)], [5, 0]);
            supply.waste();
        }
        assert_eq!(supply.expected(5), 1);
        supply.forget();
        assert_eq!(supply.expected(5), u32::MAX);
    }
}
