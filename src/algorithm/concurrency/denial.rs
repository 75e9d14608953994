//! Denials by a concurrency limit are never remembered: a permit can come back at any time.

use super::concurrency::Concurrency;
use crate::algorithm::{
    action::Ask,
    denial::{DeniedIn, Denying},
    window::WindowSnapshot,
};

impl Denying for Concurrency {
    type DeniedBy = ();

    const OUTDATED_BY_GRANTS: bool = false;

    const IS_REMEMBERED: bool = false;

    fn denied_by(&self) {}

    fn denies(&self, _: &DeniedIn<Self>, _: &Ask<'_>, _: u64) -> Option<WindowSnapshot> {
        None
    }
}
