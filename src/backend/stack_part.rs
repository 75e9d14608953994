//! What this crate's wrappers need of each other, beyond [`Backend`].

use super::{Backend, Deciding, MaybeReady, UnsupportedLimit};
use crate::transaction::{Algorithm, Batch, LeaseShare};

/// A wrapper of this crate. The [backend docs](crate::backend#a-custom-backend) have an example of another one.
pub trait StackPart {
    /// Does the same as [`Backend::ask`], without a deadline and with a boxed future.
    fn ask_boxed<'a>(&'a self, batch: &'a Batch<'a>) -> MaybeReady<Deciding<'a>>;

    /// Returns the part of a limit that the store decides with, if this wrapper keeps the rest for leases.
    ///
    /// # Errors
    ///
    /// If the limit cannot be leased, with the reason and what to change.
    fn part_at_store(
        &self,
        algorithm: &Algorithm,
        share: LeaseShare,
    ) -> Result<Option<Algorithm>, UnsupportedLimit> {
        let _ = (algorithm, share);
        Ok(None)
    }
}

/// Decides a batch at once if that is possible, and otherwise returns the boxed future that decides it.
pub(crate) fn ask_boxed<'a, B: Backend + ?Sized>(
    backend: &'a B,
    batch: &'a Batch<'a>,
) -> MaybeReady<Deciding<'a>> {
    if let Some(part) = backend.as_stack_part() {
        return part.ask_boxed(batch);
    }
    match backend.try_apply(batch) {
        Some(decided) => MaybeReady::Ready(decided),
        None => MaybeReady::Waits(backend.apply(batch)),
    }
}

/// Returns the part of a limit that the store decides with, if a wrapper in the stack keeps the rest for leases.
///
/// # Errors
///
/// If the limit cannot be leased, with the reason and what to change.
pub(crate) fn part_at_store(
    backend: &dyn Backend,
    algorithm: &Algorithm,
    share: LeaseShare,
) -> Result<Option<Algorithm>, UnsupportedLimit> {
    let mut backend = Some(backend);
    while let Some(layer) = backend {
        if let Some(part) = layer.as_stack_part()
            && let Some(left) = part.part_at_store(algorithm, share)?
        {
            return Ok(Some(left));
        }
        backend = layer.wrapped();
    }
    Ok(None)
}
