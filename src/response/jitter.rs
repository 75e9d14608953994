//! Random waits, so that clients that were refused together do not return together.

use std::time::Duration;

use crate::random;

/// Returns a random number from 0 to `most`.
pub(super) fn random(most: u64) -> u64 {
    let random = random::number();
    most.checked_add(1)
        .map_or(random, |choices| random % choices)
}

/// Returns a random wait of whole microseconds up to `most`, which is capped at 500,000 years.
pub(super) fn varied(most: Duration) -> Duration {
    let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(if most == 0 { 0 } else { random(most) })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn all_that_is_allowed_comes_and_nothing_else() {
        let seen: HashSet<_> = (0..1000).map(|_| random(4)).collect();
        assert_eq!(seen, HashSet::from([0, 1, 2, 3, 4]));
        assert_eq!(random(0), 0);
        assert_ne!(random(u64::MAX), random(u64::MAX));
    }

    #[test]
    fn wait_varies_within_its_bounds() {
        let most = Duration::from_micros(3);
        let seen: HashSet<_> = (0..1000).map(|_| varied(most).as_micros()).collect();
        assert_eq!(seen, HashSet::from([0, 1, 2, 3]));
        assert_eq!(varied(Duration::ZERO), Duration::ZERO);
        assert!(varied(Duration::MAX) <= Duration::from_micros(u64::MAX));
    }
}
