//! What one request is charged.

use super::source::ClientId;
use crate::{
    id::Id,
    one_or_many::OneOrMany,
    transaction::{Fingerprint, OnFailure, Transaction},
};

pub(crate) type Charges = OneOrMany<Charge>;

/// What one request is charged in one bucket.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    /// The first rule that met there.
    pub(crate) rule: usize,
    /// The limit, among those of all rules.
    pub(crate) target: usize,
    /// Which of the rule's extractors has found the id.
    pub(super) source: usize,
    pub(crate) id: ClientId,
    /// Of the bucket.
    pub(crate) fingerprint: Fingerprint,
    pub(crate) cost: u32,
    pub(super) on_failure: Meanwhile,
    /// Whether a rule that met there does not wait in line.
    pub(super) no_wait: bool,
}

/// What the rules of one bucket say is decided while the store does not answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meanwhile {
    /// Each of them says something, of which this is the strictest.
    Said(OnFailure),
    /// One leaves it to the limit or, if that does not say, to the backend. What others say is the least.
    Limits { floor: Option<OnFailure> },
}

impl Meanwhile {
    pub(super) fn of(on_failure: Option<OnFailure>) -> Self {
        on_failure.map_or(Self::Limits { floor: None }, Self::Said)
    }

    /// What holds if another rule says this, or nothing.
    pub(super) fn with(self, other: Option<OnFailure>) -> Self {
        let (Self::Said(said) | Self::Limits { floor: Some(said) }) = self else {
            return Self::Limits { floor: other };
        };
        let strictest = other.map_or(said, |other| said.stricter(other));
        match (self, other) {
            (Self::Said(_), Some(_)) => Self::Said(strictest),
            _ => Self::Limits {
                floor: Some(strictest),
            },
        }
    }

    /// What it comes to, if that is known without the backend.
    pub(super) fn known(self, of_limit: Option<OnFailure>) -> Option<OnFailure> {
        match (self, of_limit) {
            (Self::Said(said), _) => Some(said),
            (Self::Limits { floor: Some(floor) }, Some(own)) => Some(floor.stricter(own)),
            // Nothing is stricter.
            (
                Self::Limits {
                    floor: Some(OnFailure::Refuse),
                },
                None,
            ) => Some(OnFailure::Refuse),
            (Self::Limits { floor: _ }, own) => own,
        }
    }
}

/// The transaction of an id that a rule has found.
pub(crate) fn charged<'a>(limit: &'a str, id: &'a Id) -> Transaction<'a> {
    match id.as_str() {
        Id::MISSING => Transaction::missing(limit),
        id => Transaction::new(limit, id),
    }
}
