//! What the store has answered, before it is stored in memory.
//!
//! Only local decisions need the states of the store, and as long as the store answers, there are none. So a state is
//! first written to a short list of its thread, which is cheap. Most states have expired by the time the list is full.
//! The others are then stored in memory. Before a local decision, all lists are stored.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use crate::{
    backend::per_thread::PerThread,
    clock::Timestamp,
    decision::State,
    transaction::{Algorithm, Fingerprint},
};

/// The number of lists. Threads can share one.
const LISTS: usize = 16;

/// The most states in a list.
const MOST: usize = 64;

/// The least time for which states are stored at once, in microseconds. Emptying all lists takes longer than a
/// decision, so it must not happen for each one.
const AT_ONCE: u64 = 1_000_000;

/// The state of a bucket in a row, as the store has answered.
pub(super) struct SeenState {
    pub(super) bucket: Fingerprint,
    pub(super) algorithm: Algorithm,
    pub(super) state: State,
    /// The time of the answer, by the clock of this process.
    pub(super) now: Timestamp,
}

/// The states that are yet to be stored.
pub(super) struct SeenBuffer {
    lists: PerThread<Mutex<Vec<SeenState>>>,
    /// States of instants up to this one are stored at once, in microseconds since the epoch.
    at_once_until: AtomicU64,
    /// No list has a state of an instant up to this one.
    empty_until: AtomicU64,
    emptying: Mutex<()>,
}

impl SeenBuffer {
    pub(super) fn new() -> Self {
        Self {
            lists: PerThread::new(LISTS, |_| Mutex::default()),
            at_once_until: AtomicU64::new(0),
            empty_until: AtomicU64::new(0),
            emptying: Mutex::default(),
        }
    }

    /// Keeps a state for later, and passes the states of a full list to `store`. Returns the state if it has to be stored
    /// at once.
    #[inline]
    pub(super) fn keep(&self, state: SeenState, store: impl Fn(&SeenState)) -> Option<SeenState> {
        let mut list = self.lists.own().lock();
        // This is read under the lock of the list, so no state of such an instant is added to a list after `empty` has
        // emptied it.
        if self.are_at_once(state.now.as_micros()) {
            return Some(state);
        }
        let now = state.now;
        list.push(state);
        if list.len() >= MOST {
            let live = |kept: &SeenState| kept.algorithm.is_used(kept.state, now);
            list.drain(..).filter(live).for_each(|kept| store(&kept));
        }
        None
    }

    /// Passes all states of instants up to `until` to `store`, and lets later ones of such instants be stored at once.
    #[inline]
    pub(super) fn store_until(&self, until: u64, store: impl Fn(&SeenState)) {
        if self.empty_until.load(Ordering::Acquire) < until {
            self.empty(until.saturating_add(AT_ONCE), store);
        }
    }

    /// Returns whether states of an instant are stored at once.
    #[inline]
    pub(super) fn are_at_once(&self, now: u64) -> bool {
        now <= self.at_once_until.load(Ordering::Relaxed)
    }

    /// Lets states of instants up to `until` be stored at once.
    #[inline]
    pub(super) fn extend(&self, until: u64) {
        if self.at_once_until.load(Ordering::Relaxed) < until {
            self.at_once_until.fetch_max(until, Ordering::Relaxed);
        }
    }

    #[cold]
    fn empty(&self, until: u64, store: impl Fn(&SeenState)) {
        // Another thread that sees the new instant must also see the states.
        let _emptying = self.emptying.lock();
        self.extend(until);
        self.store_all(store);
        self.empty_until.fetch_max(until, Ordering::Release);
    }

    /// Passes all states to `store`.
    pub(super) fn store_all(&self, store: impl Fn(&SeenState)) {
        for list in self.lists.iter() {
            list.lock().drain(..).for_each(|kept| store(&kept));
        }
    }
}

/// Prints no states, because there can be many.
impl fmt::Debug for SeenBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeenBuffer")
            .field("at_once_until", &self.at_once_until)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, sync::atomic::AtomicBool, thread};

    use super::*;
    use crate::{Limit, algorithm::Tat};

    fn state(now: u64, tat: u64) -> SeenState {
        SeenState {
            bucket: Fingerprint::default(),
            algorithm: Limit::per_second(1).algorithm().unwrap().clone(),
            state: State::Gcra(Tat::from_micros(tat)),
            now: Timestamp::from_micros(now),
        }
    }

    fn tat(state: &SeenState) -> u64 {
        state.algorithm.follows_until(state.state)
    }

    #[test]
    fn full_list_is_stored_without_expired_states() {
        let (pending, stored) = (SeenBuffer::new(), RefCell::new(Vec::new()));
        let store = |state: &SeenState| stored.borrow_mut().push(tat(state));
        let most = MOST as u64;
        for now in 1..=most {
            assert!(stored.borrow().is_empty());
            // Every other state has expired by the end.
            assert!(
                pending
                    .keep(state(now, now + now % 2 * most), store)
                    .is_none()
            );
        }
        let expected: Vec<_> = (1..most)
            .step_by(2)
            .map(|now| now + most)
            .chain([most])
            .collect();
        assert_eq!(*stored.borrow(), expected);
    }

    #[test]
    fn states_up_to_an_instant_are_stored_at_once_and_later_ones_are_kept() {
        let (pending, stored) = (SeenBuffer::new(), RefCell::new(Vec::new()));
        let store = |state: &SeenState| {
            let empty_until = pending.empty_until.load(Ordering::Relaxed);
            assert!(empty_until < state.now.as_micros(), "announced too early");
            stored.borrow_mut().push(state.now.as_micros());
        };
        assert!(pending.keep(state(5, 9), store).is_none());
        pending.store_until(10, store);
        assert_eq!(*stored.borrow(), [5]);
        for now in [5, 10, 10 + AT_ONCE] {
            assert!(pending.keep(state(now, now), store).is_some());
        }
        let later = 11 + AT_ONCE;
        assert!(pending.keep(state(later, later), store).is_none());
        pending.store_until(10 + AT_ONCE, store);
        assert_eq!(*stored.borrow(), [5], "none is that early");
        pending.store_until(later, store);
        assert_eq!(*stored.borrow(), [5, later]);
        pending.extend(10 * AT_ONCE);
        assert!(pending.keep(state(10 * AT_ONCE, 0), store).is_some());
    }

    #[test]
    fn whoever_needs_the_states_sees_all_that_were_kept_before() {
        for round in 0..2_000 {
            let (pending, stored) = (SeenBuffer::new(), AtomicU64::new(0));
            let (kept, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
            let store = |state: &SeenState| {
                stored.fetch_max(tat(state), Ordering::Relaxed);
            };
            let needs = || {
                while !is_over.load(Ordering::Acquire) {
                    let before = kept.load(Ordering::Acquire);
                    pending.store_until(round, store);
                    assert!(stored.load(Ordering::Relaxed) >= before);
                }
            };
            thread::scope(|scope| {
                scope.spawn(needs);
                scope.spawn(needs);
                // States of TATs in the past would not be stored.
                for tat in round + 1..=round + 100 {
                    let state = state(round, tat);
                    if let Some(state) = pending.keep(state, store) {
                        store(&state);
                    }
                    kept.store(tat, Ordering::Release);
                }
                is_over.store(true, Ordering::Release);
            });
        }
    }
}
