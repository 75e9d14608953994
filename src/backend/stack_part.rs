//! What this crate's wrappers need of each other, beyond [`Backend`].

use std::fmt;

use super::{
    Backend, Deciding, LeaseShare, MaybeReady, UnsupportedLimit,
    leased_limits::{LeasedLimits, LimiterId},
};
use crate::transaction::{Algorithm, Batch, LimitKey};

/// A wrapper of this crate, as only this crate uses it. The [backend docs](crate::backend#a-custom-backend) have an example
/// of another one.
#[derive(Clone, Copy, Debug)]
pub struct StackPart<'a>(pub(super) &'a dyn Wrapper);

/// What a wrapper of this crate can do beyond [`Backend`].
pub(crate) trait Wrapper: fmt::Debug {
    /// Does the same as [`Backend::ask`], without a deadline and with a boxed future.
    fn ask_boxed<'a>(&'a self, batch: &'a Batch<'a>) -> MaybeReady<Deciding<'a>>;

    /// Returns this wrapper as one that leases, if it is one.
    fn as_leasing(&self) -> Option<&dyn LimitLeasing> {
        None
    }
}

/// A wrapper that keeps a part of limits for leases.
pub(crate) trait LimitLeasing {
    /// Returns the part of a limit with this share that the store decides with.
    ///
    /// # Errors
    ///
    /// If the limit cannot be leased, with the reason and what to change.
    fn part_with(
        &self,
        algorithm: &Algorithm,
        share: LeaseShare,
    ) -> Result<Algorithm, UnsupportedLimit>;

    /// Replaces the leased limits of a limiter.
    fn lease(&self, limiter: &LimiterId, limits: LeasedLimits);

    /// Returns the part of a limit that the store decides with, if it is leased.
    fn part_of(&self, key: LimitKey<'_>, algorithm: &Algorithm) -> Option<Algorithm>;
}

/// Decides a batch at once if that is possible, and otherwise returns the boxed future that decides it.
pub(crate) fn ask_boxed<'a, B: Backend + ?Sized>(
    backend: &'a B,
    batch: &'a Batch<'a>,
) -> MaybeReady<Deciding<'a>> {
    if let Some(part) = backend.as_stack_part() {
        return part.0.ask_boxed(batch);
    }
    match backend.try_apply(batch) {
        Some(decided) => MaybeReady::Ready(decided),
        None => MaybeReady::Waits(backend.apply(batch)),
    }
}

/// Returns the wrapper in a stack that leases, if there is one.
pub(crate) fn leasing(backend: &dyn Backend) -> Option<&dyn LimitLeasing> {
    let part = backend.as_stack_part();
    let part = part.and_then(|part| part.0.as_leasing());
    part.or_else(|| leasing(backend.wrapped()?))
}
