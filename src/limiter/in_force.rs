//! The limits in force, which each decision reads and a reload replaces.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::{ArcSwap, Guard};

use crate::limit::Limits;

/// The limits in force.
///
/// Until the first reload, they are borrowed, which takes no atomic write. After that, and always if there are many
/// overrides, reading them takes two.
pub(super) struct LimitsCell {
    /// The limits until the first reload, unless they have many overrides. They stay in memory, because somebody may have
    /// borrowed them.
    first: Arc<Limits>,
    is_replaced: AtomicBool,
    latest: ArcSwap<Limits>,
}

/// The limits in force at the beginning of a decision.
pub(crate) enum DecisionLimits<'a> {
    First(&'a Limits),
    Latest(Guard<Arc<Limits>>),
}

impl LimitsCell {
    /// The most overrides that may stay in memory after a reload.
    const FEW: usize = 1000;

    pub(super) fn new(limits: Limits) -> Self {
        let overrides = limits.iter().map(|named| named.overrides().len());
        let is_large = overrides.sum::<usize>() > Self::FEW;
        let limits = Arc::new(limits);
        Self {
            first: match is_large {
                true => Arc::default(),
                false => Arc::clone(&limits),
            },
            is_replaced: AtomicBool::new(is_large),
            latest: ArcSwap::new(limits),
        }
    }

    /// Borrows the limits for the time of one decision.
    #[inline(always)]
    pub(super) fn read(&self) -> DecisionLimits<'_> {
        match self.first() {
            Some(first) => DecisionLimits::First(first),
            None => DecisionLimits::Latest(self.latest.load()),
        }
    }

    /// Returns the first limits until they are replaced.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<&Limits> {
        let is_replaced = self.is_replaced.load(Ordering::Acquire);
        (!is_replaced).then_some(&self.first)
    }

    pub(super) fn share(&self) -> Arc<Limits> {
        self.latest.load_full()
    }

    /// Replaces the limits. Decisions that begin after this use the new ones.
    pub(super) fn replace(&self, limits: Limits) {
        self.latest.store(Arc::new(limits));
        self.is_replaced.store(true, Ordering::Release);
    }
}

impl Deref for DecisionLimits<'_> {
    type Target = Limits;

    #[inline(always)]
    fn deref(&self) -> &Limits {
        match self {
            Self::First(limits) => limits,
            Self::Latest(limits) => limits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Limit;

    fn limits(overrides: usize) -> Limits {
        let limits = Limits::builder().limit("a", Limit::per_second(1));
        let ids = 0..overrides;
        let limits = ids.fold(limits, |limits, n| {
            limits.override_for("a", &n.to_string(), Limit::per_second(2))
        });
        limits.build().unwrap()
    }

    fn names(limits: &LimitsCell) -> Vec<String> {
        let limits = limits.read();
        limits.names().into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn reload_is_seen_by_readers_and_does_not_disturb_those_that_have_begun() {
        for overrides in [0, 2 * LimitsCell::FEW] {
            let in_force = LimitsCell::new(limits(overrides));
            assert_eq!(names(&in_force), ["a"]);
            let begun = in_force.read();
            for name in ["b", "c"] {
                let next = Limits::builder().limit(name, Limit::per_second(1)).build();
                in_force.replace(next.unwrap());
                assert_eq!(names(&in_force), [name]);
                assert_eq!(in_force.share().names(), [name]);
            }
            assert_eq!(begun.names(), ["a"]);
        }
    }

    #[test]
    fn many_overrides_leave_memory_with_the_reload() {
        for (overrides, stays) in [(LimitsCell::FEW, true), (LimitsCell::FEW + 1, false)] {
            let in_force = LimitsCell::new(limits(overrides));
            let before = Arc::downgrade(&in_force.share());
            in_force.replace(limits(0));
            assert_eq!(before.strong_count() > 0, stays);
        }
    }
}
