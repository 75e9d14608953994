use std::sync::Arc;

use super::config::Config;
use crate::{
    batch::Member,
    decision::Decision,
    response::{DecidedCharges, LimitsInForce},
};

/// The members that a request is charged to, with the limits and the layer that decide it.
#[derive(Clone, Copy)]
pub(super) struct RequestCharges<'a> {
    pub(super) config: &'a Arc<Config>,
    pub(super) in_force: &'a LimitsInForce,
    pub(super) members: &'a [Member<'a>],
}

impl<'a> RequestCharges<'a> {
    #[inline]
    pub(super) fn with(self, decisions: &'a [Decision]) -> DecidedCharges<'a> {
        DecidedCharges {
            in_force: self.in_force,
            members: self.members,
            decisions,
        }
    }
}
