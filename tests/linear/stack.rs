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
    Cached,
    /// Without the store, calls are errors.
    Refusing,
    /// Without the store, processes decide.
    Deciding,
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
    pub(crate) const ALL: [Self; 5] = [
        Self::Bare,
        Self::Cached,
        Self::Refusing,
        Self::Deciding,
        Self::Leasing,
    ];

    /// The wrappers of one process of so many.
    pub(crate) fn around(self, store: Arc<dyn Backend>, processes: u32) -> Arc<dyn Backend> {
        let cached = |store| DenyCache::with_capacity(store, 64);
        match self {
            Self::Bare => store,
            Self::Cached => Arc::new(cached(store)),
            Self::Refusing | Self::Deciding => policed(cached(store)),
            Self::Leasing => policed(Lease::new(cached(store), processes)),
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

    /// Whether the model knows the limit's periods. A process that decides without the store goes on with the period that it
    /// has seen there, and the store with that of a debt, both of which can have begun before the first use here.
    pub(super) fn has(self, terms: Terms) -> bool {
        self != Self::Deciding
            || !matches!(
                terms,
                Terms::Quota {
                    first_use: Some(_),
                    ..
                }
            )
    }

    /// Whether processes charge ahead for a limit. A period from first use starts with the charge, and not with the use, so
    /// that it has other periods than the model.
    pub(super) fn leases(self, terms: Terms) -> bool {
        let can = match terms {
            Terms::Gcra { .. } => true,
            Terms::Quota { first_use, .. } => first_use.is_none(),
            Terms::Window { .. } => false,
        };
        can && self == Self::Leasing
    }

    /// Whether each answer of the store about such a limit is the model's. With leases, some of it is held back. Decisions of
    /// processes are charged to the store at any later time.
    pub(super) fn is_exact(self, terms: Terms) -> bool {
        self != Self::Deciding && !self.leases(terms)
    }
}

/// A policy that asks the store again however many calls were lost.
fn policed(store: impl Backend) -> Arc<dyn Backend> {
    let policy = FailurePolicy::new(store).deadline(LONG);
    Arc::new(policy.failures_in_a_row(u32::MAX))
}
