//! The stacks of wrappers whose histories are checked, and their limits.

use std::{sync::Arc, time::Duration};

use tollgate::{
    Limiter, Limits,
    backend::{Backend, DenyCache, FailurePolicy, Lease},
    limit::LimitName,
    transaction::OnFailure,
};

use super::model::Terms;

/// No machine is as slow.
const LONG: Duration = Duration::from_secs(60);

/// The wrappers around a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    Bare,
    /// By the clock of the store, because a cache remembers no other denials.
    Cached,
    /// Without the store, calls are errors.
    Refusing,
    /// Without the store, processes decide.
    Deciding,
    /// By the clock of the store, because units are leased by no other.
    Leasing,
}

/// The limits of all histories.
pub(crate) const LIMITS: [(&str, Terms); 4] = [
    (
        "rate",
        Terms::Gcra {
            burst: 10,
            count: 7,
            period: 1_000_000,
        },
    ),
    (
        "window",
        Terms::Window {
            limit: 8,
            span: 500_000,
        },
    ),
    (
        "hour",
        Terms::Quota {
            quota: 10,
            first_use: None,
        },
    ),
    (
        "use",
        Terms::Quota {
            quota: 8,
            first_use: Some(400_000),
        },
    ),
];

impl Stack {
    /// Those that decide by any clock, so that time passes while a history goes on.
    pub(crate) const ALL: [Self; 3] = [Self::Bare, Self::Refusing, Self::Deciding];

    /// The wrappers of one process of so many.
    pub(crate) fn around(self, store: Arc<dyn Backend>, processes: u32) -> Arc<dyn Backend> {
        match self {
            Self::Bare => store,
            Self::Cached => Arc::new(DenyCache::new(store)),
            Self::Refusing | Self::Deciding => policed(DenyCache::new(store)),
            Self::Leasing => policed(Lease::new(DenyCache::new(store), processes)),
        }
    }

    /// A process.
    pub(crate) fn limiter(self, backend: Arc<dyn Backend>) -> Limiter {
        let on_failure = match self {
            Self::Deciding => OnFailure::Local,
            _ => OnFailure::Refuse,
        };
        let limits = LIMITS
            .iter()
            .fold(Limits::builder(), |limits, (name, terms)| {
                let leased = |name: LimitName| match self.leases(*terms) {
                    true => name.lease(1, 5),
                    false => name,
                };
                let name = leased(LimitName::from(*name).on_failure(on_failure));
                limits.limit(name, terms.limit())
            });
        Limiter::new(limits.build().unwrap(), backend)
    }

    /// Whether the store's clock decides, which stands still then.
    pub(super) fn is_by_the_stores_clock(self) -> bool {
        matches!(self, Self::Cached | Self::Leasing)
    }

    /// Whether processes charge ahead for a limit.
    pub(super) fn leases(self, terms: Terms) -> bool {
        self == Self::Leasing && matches!(terms, Terms::Gcra { .. })
    }

    /// Whether each answer of the store about such a limit is the model's. With leases, some of it is held back.
    pub(super) fn is_exact(self, terms: Terms) -> bool {
        !self.leases(terms)
    }
}

/// A policy that waits for a store however long it takes.
fn policed(store: impl Backend) -> Arc<dyn Backend> {
    Arc::new(FailurePolicy::new(store).deadline(LONG))
}
