//! Debts that count as charged at the store while it is asked to charge them.
//!
//! In memory, such a debt hides the charges of others whose answers do not have it yet. They are in the answer to the debit
//! as well. If the store charges nothing, there is none, so what they said is kept here until then.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use ahash::RandomState;
use parking_lot::{Mutex, MutexGuard};

use crate::{decision::State, transaction::Fingerprint};

/// The states that the store has answered since a debt was settled, without that debt.
#[derive(Default)]
pub(super) struct SettledDebts {
    len: AtomicUsize,
    states: Mutex<HashMap<Fingerprint, State, RandomState>>,
}

impl SettledDebts {
    /// Settles a debt of a bucket that had this state. Returns `None` if another debt of the bucket is being paid.
    pub(super) fn add(self: &Arc<Self>, bucket: Fingerprint, state: State) -> Option<SettledDebt> {
        let mut states = self.lock();
        if states.contains_key(&bucket) {
            return None;
        }
        states.insert(bucket, state);
        self.len.store(states.len(), Ordering::Release);
        Some(SettledDebt {
            all: Arc::clone(self),
            bucket,
        })
    }

    /// Changes the state of a bucket, if a debt of it is being paid.
    #[inline]
    pub(super) fn change(&self, bucket: &Fingerprint, change: impl FnOnce(State) -> State) {
        if self.len.load(Ordering::Acquire) > 0
            && let Some(state) = self.lock().get_mut(bucket)
        {
            *state = change(*state);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Fingerprint, State, RandomState>> {
        self.states.lock()
    }
}

/// Prints the number of debts only, because there can be many.
impl fmt::Debug for SettledDebts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SettledDebts")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// A debt that is being paid, until this is dropped.
pub(super) struct SettledDebt {
    all: Arc<SettledDebts>,
    bucket: Fingerprint,
}

impl SettledDebt {
    /// Returns the state of the bucket without the debt.
    pub(super) fn state(&self) -> Option<State> {
        self.all.lock().get(&self.bucket).copied()
    }
}

impl Drop for SettledDebt {
    fn drop(&mut self) {
        let mut states = self.all.lock();
        states.remove(&self.bucket);
        self.all.len.store(states.len(), Ordering::Release);
    }
}
