//! The state of each server.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use ahash::RandomState;
use http::Uri;

use super::host::Host;
use crate::key::host_of;

/// The most servers that are remembered.
const MOST: usize = 1024;

/// The servers that requests were sent to, by the authority of the URI.
#[derive(Default)]
pub(super) struct Hosts(Mutex<HashMap<String, Arc<Host>, RandomState>>);

impl Hosts {
    /// Returns the server of a URI. If there are too many, unused servers without a wait are forgotten. If that does
    /// not help, the new one is not remembered.
    pub(super) fn of(&self, uri: &Uri) -> Arc<Host> {
        let name = host_of(uri).unwrap_or_default();
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = hosts.get(&name) {
            return Arc::clone(host);
        }
        if hosts.len() >= MOST {
            hosts.retain(|_, host| Arc::strong_count(host) > 1 || host.is_held());
        }
        let host = Arc::new(Host::default());
        if hosts.len() < MOST {
            hosts.insert(name, Arc::clone(&host));
        }
        host
    }
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_tuple("Hosts").field(&hosts.len()).finish()
    }
}
