//! Values that change seldom, such as the limits in force. Each thread keeps those at hand that it has used last: a look at a
//! pointer that all threads share would take a fifth of a decision.

use std::{
    cell::Cell,
    fmt,
    ops::Deref,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread::LocalKey,
};

use arc_swap::ArcSwap;

/// How many values of a type a thread keeps at hand.
const PLACES: usize = 16;

/// The values that a thread has at hand, with their versions. One that is in use is not there.
pub(crate) type Places<T> = [Cell<Option<(u64, Arc<T>)>>; PLACES];

/// A value that threads keep at hand.
pub(crate) trait Kept: Sized + 'static {
    fn places() -> &'static LocalKey<Places<Self>>;
}

/// Makes a type one that threads keep at hand.
macro_rules! keep_at_hand {
    ($kept:ty) => {
        impl crate::at_hand::Kept for $kept {
            fn places() -> &'static std::thread::LocalKey<crate::at_hand::Places<Self>> {
                std::thread_local! {
                    static PLACES: crate::at_hand::Places<$kept> =
                        const { [const { std::cell::Cell::new(None) }; 16] };
                }
                &PLACES
            }
        }
    };
}
pub(crate) use keep_at_hand;

/// A value that changes seldom.
pub(crate) struct Current<T: Kept> {
    value: ArcSwap<T>,
    /// A number that no other value in this process has had.
    version: AtomicU64,
    /// Its place in each thread, once it is used.
    place: OnceLock<usize>,
}

/// The number of the next value.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl<T: Kept> Current<T> {
    pub(crate) fn new(value: T) -> Self {
        let version = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            value: ArcSwap::from_pointee(value),
            version: AtomicU64::new(version),
            place: OnceLock::new(),
        }
    }

    pub(crate) fn replace(&self, value: Arc<T>) {
        self.value.store(value);
        // Later, so that nobody keeps the one before by it.
        let version = NEXT.fetch_add(1, Ordering::Relaxed);
        self.version.store(version, Ordering::Release);
    }

    pub(crate) fn load_full(&self) -> Arc<T> {
        self.value.load_full()
    }

    /// Returns the value, for the time of one decision.
    #[inline]
    pub(crate) fn load(&self) -> AtHand<T> {
        let version = self.version.load(Ordering::Acquire);
        let place = *self.place.get_or_init(next_place);
        let kept = T::places().try_with(|places| places[place % PLACES].take());
        let value = match kept {
            Ok(Some((kept, value))) if kept == version => Some(value),
            other => self.look(other.ok().flatten()),
        };
        AtHand {
            version,
            place,
            value,
        }
    }

    #[cold]
    fn look(&self, _other: Option<(u64, Arc<T>)>) -> Option<Arc<T>> {
        Some(self.value.load_full())
    }
}

fn next_place() -> usize {
    static PLACE: AtomicUsize = AtomicUsize::new(0);
    PLACE.fetch_add(1, Ordering::Relaxed) % PLACES
}

impl<T: Kept + fmt::Debug> fmt::Debug for Current<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// A value that is in use, and then at hand again.
pub(crate) struct AtHand<T: Kept> {
    version: u64,
    place: usize,
    value: Option<Arc<T>>,
}

impl<T: Kept> Deref for AtHand<T> {
    type Target = Arc<T>;

    #[inline]
    fn deref(&self) -> &Arc<T> {
        self.value.as_ref().expect("it is there until the end")
    }
}

impl<T: Kept> Drop for AtHand<T> {
    #[inline]
    fn drop(&mut self) {
        let value = self.value.take().map(|value| (self.version, value));
        let _ = T::places().try_with(|places| places[self.place % PLACES].set(value));
    }
}
