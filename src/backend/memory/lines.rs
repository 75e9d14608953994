//! Lines of callers that wait for permits to come back, in order of arrival.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use ahash::RandomState;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tokio::sync::Notify;

use crate::transaction::Fingerprint;

/// The lines of all buckets.
#[derive(Debug, Default)]
pub(crate) struct PermitLines {
    lines: Mutex<HashMap<Fingerprint, VecDeque<LineTicket>, RandomState>>,
    /// The number of callers that wait, so that others need no lock.
    waiting: AtomicUsize,
    tickets: AtomicU64,
}

#[derive(Debug)]
struct LineTicket {
    number: u64,
    /// Notified when its caller may have become the first one, or when permits may have come back.
    turn: Arc<Notify>,
}

/// A place in the lines of some buckets. It is given up when this is dropped.
#[derive(Debug)]
pub(crate) struct LinePlace {
    lines: Arc<PermitLines>,
    buckets: SmallVec<[Fingerprint; 2]>,
    number: u64,
    turn: Arc<Notify>,
}

impl PermitLines {
    /// Takes a place at the end of each of these lines.
    pub(crate) fn join(self: &Arc<Self>, buckets: SmallVec<[Fingerprint; 2]>) -> LinePlace {
        let (number, turn) = (
            self.tickets.fetch_add(1, Ordering::Relaxed),
            Arc::<Notify>::default(),
        );
        let mut lines = self.lock();
        for bucket in &buckets {
            lines.entry(*bucket).or_default().push_back(LineTicket {
                number,
                turn: Arc::clone(&turn),
            });
        }
        drop(lines);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        LinePlace {
            lines: Arc::clone(self),
            buckets,
            number,
            turn,
        }
    }

    /// Wakes the first callers of these buckets, because something was given back to them.
    #[inline]
    pub(super) fn wake<'m>(&self, buckets: impl Iterator<Item = &'m Fingerprint>) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.wake_first(buckets);
        }
    }

    #[cold]
    fn wake_first<'m>(&self, buckets: impl Iterator<Item = &'m Fingerprint>) {
        let lines = self.lock();
        for bucket in buckets {
            if let Some(first) = lines.get(bucket).and_then(VecDeque::front) {
                first.turn.notify_one();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Fingerprint, VecDeque<LineTicket>, RandomState>> {
        self.lines.lock()
    }
}

impl LinePlace {
    /// Returns whether nobody is before this caller, in any of its lines.
    pub(crate) fn is_first(&self) -> bool {
        let lines = self.lines.lock();
        self.buckets.iter().all(|bucket| {
            let first = lines.get(bucket).and_then(VecDeque::front);
            first.is_some_and(|first| first.number == self.number)
        })
    }

    /// Waits until this caller may have become the first one, or until permits may have come back.
    pub(crate) async fn woken(&self) {
        self.turn.notified().await;
    }
}

impl Drop for LinePlace {
    fn drop(&mut self) {
        let mut lines = self.lines.lock();
        for bucket in &self.buckets {
            let Some(line) = lines.get_mut(bucket) else {
                continue;
            };
            line.retain(|ticket| ticket.number != self.number);
            match line.front() {
                Some(first) => first.turn.notify_one(),
                None => drop(lines.remove(bucket)),
            }
        }
        drop(lines);
        self.lines.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
