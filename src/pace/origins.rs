//! The state of each server.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use ahash::RandomState;
use http::Uri;

use super::origin::Origin;
use crate::key::host_of;

/// The most servers that are remembered.
const MOST: usize = 1024;

/// The longest name of a server that is remembered. A longer name is invalid in DNS, and shares a state with URIs that
/// have no authority.
const LONGEST_NAME: usize = 260;

/// The servers that requests were sent to, by the authority of the URI.
#[derive(Default)]
pub(super) struct Origins(Mutex<HashMap<String, Arc<Origin>, RandomState>>);

impl Origins {
    /// Returns the server of a URI. If there are too many, unused servers without a wait are forgotten. If that does
    /// not help, the new one is not remembered.
    pub(super) fn of(&self, uri: &Uri) -> Arc<Origin> {
        let name = host_of(uri).filter(|name| name.len() <= LONGEST_NAME);
        let name = name.unwrap_or_default();
        let mut origins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(origin) = origins.get(&name) {
            return Arc::clone(origin);
        }
        if origins.len() >= MOST {
            origins.retain(|_, origin| Arc::strong_count(origin) > 1 || origin.is_held());
        }
        let origin = Arc::new(Origin::default());
        if origins.len() < MOST {
            origins.insert(name, Arc::clone(&origin));
        }
        origin
    }
}

impl fmt::Debug for Origins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_tuple("Origins").field(&origins.len()).finish()
    }
}
