//! Load: tasks that spend until they are stopped, and the result of each call.

use std::{
    collections::BTreeMap,
    error::Error,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::{task::JoinHandle, time::sleep};
use tollgate::{
    Limit, Limiter, Limits, RedisBackend, Transaction, backend::redis::RedisError, id::IdFormat,
    limit::LimitName,
};

use crate::{
    connect,
    eventually::{PATIENCE, eventually_async},
};

/// The units that each id may spend. None come back during a test.
pub(crate) const BURST: u32 = 3;

/// The default, for tests in which decisions time out.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(250);

/// The limits of all tests with load: one by any id, and one in which the ids of an account share a slot.
pub(crate) fn limits() -> Limits {
    let limit = Limit::per_day(BURST);
    let one = LimitName::new("one", 1, IdFormat::Opaque);
    let of_account = LimitName::new("ofAccount", 2, IdFormat::RegIdDomain);
    let limits = Limits::builder().limit(one, limit.clone());
    limits.limit(of_account, limit).build().unwrap()
}

/// A limiter on a backend with the usual timeout, and connected.
pub(crate) async fn limiter(url: String) -> Limiter {
    let backend = RedisBackend::new(url).unwrap();
    backend.connected(PATIENCE).await.unwrap();
    Limiter::new(limits(), backend)
}

/// A limiter whose timeout even a slow machine keeps.
pub(crate) async fn patient_limiter(url: String) -> Limiter {
    Limiter::new(limits(), connect(url).await)
}

/// Spends one from each of these ids, all or none, and says whether they passed.
pub(crate) async fn spend(
    limiter: &Limiter,
    limit: &str,
    ids: &[String],
) -> Result<bool, RedisError> {
    let batch: Vec<_> = ids.iter().map(|id| Transaction::new(limit, id)).collect();
    let decided = limiter.spend_batch(&batch).await;
    decided
        .map(|batch| batch.allowed())
        .map_err(|error| reason(&error))
}

/// Returns the error of Redis that is the cause of an error.
pub(crate) fn reason(error: &(dyn Error + 'static)) -> RedisError {
    let mut cause = error;
    loop {
        if let Some(reason) = cause.downcast_ref::<RedisError>() {
            return reason.clone();
        }
        let Some(source) = cause.source() else {
            panic!("{error}");
        };
        cause = source;
    }
}

/// Counts the calls by their results.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) calls: AtomicUsize,
    pub(crate) admitted: Mutex<BTreeMap<String, u32>>,
    undecided: Mutex<Vec<RedisError>>,
}

impl Tally {
    /// Spends, and records the result.
    async fn spend(&self, limiter: &Limiter, limit: &str, ids: Vec<String>) {
        let passed = spend(limiter, limit, &ids).await;
        match passed {
            Ok(true) => {
                let mut admitted = self.admitted.lock().unwrap();
                for id in ids {
                    *admitted.entry(id).or_default() += 1;
                }
            }
            Ok(false) => {}
            Err(error) => self.undecided.lock().unwrap().push(error),
        }
        self.calls.fetch_add(1, SeqCst);
    }

    /// The most that any id was admitted.
    pub(crate) fn most(&self) -> u32 {
        let admitted = self.admitted.lock().unwrap();
        admitted.values().copied().max().unwrap_or(0)
    }

    /// The errors, in order of time.
    pub(crate) fn undecided(&self) -> Vec<RedisError> {
        self.undecided.lock().unwrap().clone()
    }

    /// The errors, each with how often it was.
    pub(crate) fn errors(&self) -> BTreeMap<String, usize> {
        let mut errors = BTreeMap::new();
        for error in self.undecided() {
            *errors.entry(error.to_string()).or_default() += 1;
        }
        errors
    }

    /// Returns the number of decided calls.
    pub(crate) fn decided(&self) -> usize {
        self.calls.load(SeqCst) - self.undecided.lock().unwrap().len()
    }
}

/// Tasks that spend until they are stopped.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) tally: Arc<Tally>,
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts tasks that spend, all or none, from the ids that `ids` returns for the number of the call.
    pub(crate) fn start(
        limiter: &Limiter,
        limit: &'static str,
        tasks: usize,
        ids: impl Fn(usize) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        let (tally, stop) = (Arc::<Tally>::default(), Arc::<AtomicBool>::default());
        let (ids, number) = (Arc::new(ids), Arc::new(AtomicUsize::new(0)));
        let tasks = (0..tasks).map(|_| {
            let (tally, stop, limiter) = (Arc::clone(&tally), Arc::clone(&stop), limiter.clone());
            let (ids, number) = (Arc::clone(&ids), Arc::clone(&number));
            tokio::spawn(async move {
                while !stop.load(SeqCst) {
                    let ids = ids(number.fetch_add(1, SeqCst));
                    tally.spend(&limiter, limit, ids).await;
                    sleep(Duration::from_millis(1)).await;
                }
            })
        });
        let tasks = tasks.collect();
        Self { tally, stop, tasks }
    }

    /// Waits until this number of further calls was made.
    pub(crate) async fn more(&self, calls: usize) {
        let enough = self.tally.calls.load(SeqCst) + calls;
        eventually_async("more calls have ended", async || {
            self.tally.calls.load(SeqCst) >= enough
        })
        .await;
    }

    /// Waits until this number of further calls was decided.
    pub(crate) async fn more_decided(&self, calls: usize) {
        let enough = self.tally.decided() + calls;
        eventually_async("more calls are decided", async || {
            self.tally.decided() >= enough
        })
        .await;
    }

    /// Stops the tasks, and returns the results of their calls.
    pub(crate) async fn stop(self) -> Arc<Tally> {
        self.stop.store(true, SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
        self.tally
    }
}

/// Alternates between a new number, six times each, and an earlier one.
pub(crate) fn mixed(call: usize) -> usize {
    let newest = call / 12;
    match call % 2 {
        0 => newest,
        _ => call.wrapping_mul(0x9E37_79B9) % (newest + 1),
    }
}

/// Waits until each of these ids is decided about, without an error.
pub(crate) async fn until_decided(limiter: &Limiter, limit: &str, ids: &[String]) {
    for id in ids {
        eventually_async(id, async || {
            let id = std::slice::from_ref(id);
            spend(limiter, limit, id).await.is_ok()
        })
        .await;
    }
}
