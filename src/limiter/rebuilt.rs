use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU32, Ordering},
};

use crate::check::{Check, Finding, Reporter};

/// The number of consecutive limiters that served one request each.
const LIMITERS: u32 = 100;

static REBUILT: AtomicU32 = AtomicU32::new(0);

/// Counts the uses of a limiter by layers: none, one, or more. A limiter that was used once may have been built for that
/// request.
#[derive(Default)]
pub(super) struct RebuildDetector {
    requests: AtomicU32,
    reporter: OnceLock<Arc<Reporter>>,
}

impl RebuildDetector {
    /// Counts a request to a layer.
    #[inline]
    pub(super) fn note(&self, reporter: &Arc<Reporter>) {
        if self.requests.load(Ordering::Relaxed) < 2 {
            self.requests.fetch_add(1, Ordering::Relaxed);
            self.reporter.get_or_init(|| Arc::clone(reporter));
        }
    }
}

impl Drop for RebuildDetector {
    fn drop(&mut self) {
        let Some(reporter) = self.reporter.get() else {
            return;
        };
        if self.requests.load(Ordering::Relaxed) > 1 {
            REBUILT.store(0, Ordering::Relaxed);
        } else if REBUILT.fetch_add(1, Ordering::Relaxed) + 1 == LIMITERS {
            let seen = format!("{LIMITERS} limiters in a row have been dropped after one request");
            reporter.report(&Finding::new(Check::LayerRebuilt, seen));
        }
    }
}
