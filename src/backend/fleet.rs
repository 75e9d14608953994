//! The number of processes that share a store.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use thiserror::Error;

/// The number of processes that share a store, which can change while they run.
///
/// [`Lease`](super::Lease) reserves tokens for so many processes, and with `FailurePolicy::fleet`, each of them decides
/// with an equal part of each limit while the store does not answer. One value serves both. Clones share the number.
///
/// ```
/// # #[cfg(feature = "failure-policy")]
/// # {
/// use tollgate::{
///     Limit, Limiter, Limits, MemoryBackend,
///     backend::{DenyCache, FailurePolicy, Fleet, Lease},
///     limit::LimitName,
/// };
///
/// let fleet = Fleet::of(4);
/// let store = MemoryBackend::new(); // a `RedisBackend`, in a fleet
/// let lease = Lease::new(DenyCache::new(store), &fleet);
/// let backend = FailurePolicy::new(lease).fleet(&fleet);
///
/// let name = LimitName::from("requests").lease(1, 20);
/// let limits = Limits::builder().limit(name, Limit::per_second(1000).burst(1000)).build()?;
/// let limiter = Limiter::new(limits, backend);
///
/// // The autoscaler is about to start four more.
/// fleet.resize(8)?;
/// assert_eq!(fleet.size(), 8);
/// # }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// Only the application knows the number: from its configuration, its orchestrator or its service discovery. It counts all
/// processes that run at one time, also those that a deploy replaces. Every process has to be told. A number that is too
/// large makes the fleet stricter, and one that is too small lets it exceed its limits. So when the fleet grows, call
/// [`resize`](Self::resize) before the new processes start; when it shrinks, once the others have ended. The guides to
/// [leases](crate::guide::leases) and to [failures](crate::guide::failures) state the bounds during a change.
#[derive(Clone, Debug)]
pub struct Fleet(Arc<FleetSizes>);

#[derive(Debug)]
struct FleetSizes {
    now: AtomicU32,
    /// The largest size so far.
    largest: AtomicU32,
}

impl Fleet {
    /// A fleet of at most `size` processes, this one included.
    ///
    /// # Panics
    ///
    /// If `size` is 0.
    #[must_use]
    #[track_caller]
    pub fn of(size: u32) -> Self {
        assert!(size > 0, "{EmptyFleet}");
        Self(Arc::new(FleetSizes {
            now: AtomicU32::new(size),
            largest: AtomicU32::new(size),
        }))
    }

    /// Sets the number of processes, this one included. It applies to each decision that begins afterwards, in this process.
    ///
    /// # Errors
    ///
    /// If `size` is 0. The number stays as it is.
    pub fn resize(&self, size: u32) -> Result<(), EmptyFleet> {
        if size == 0 {
            return Err(EmptyFleet);
        }
        self.0.largest.fetch_max(size, Ordering::Relaxed);
        // Who reads this size sees that the largest is no smaller.
        self.0.now.store(size, Ordering::Release);
        Ok(())
    }

    /// Returns the number of processes, at least 1.
    #[must_use]
    #[inline]
    pub fn size(&self) -> u32 {
        self.0.now.load(Ordering::Acquire)
    }

    pub(super) fn processes(&self) -> NonZeroU32 {
        NonZeroU32::new(self.size()).unwrap_or(NonZeroU32::MIN)
    }

    /// Returns the largest number of processes that there has been.
    #[cfg(feature = "failure-policy")]
    pub(super) fn largest(&self) -> u32 {
        self.0.largest.load(Ordering::Relaxed)
    }
}

/// A fleet of its own, as by [`Fleet::of`].
///
/// # Panics
///
/// If the number is 0.
impl From<u32> for Fleet {
    #[track_caller]
    fn from(size: u32) -> Self {
        Self::of(size)
    }
}

/// The same fleet.
impl From<&Self> for Fleet {
    fn from(fleet: &Self) -> Self {
        fleet.clone()
    }
}

/// The error for a [`Fleet`] without processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[error(
    "a fleet of 0 processes decides nothing: use the largest number that runs at one time, at least 1"
)]
pub struct EmptyFleet;
