//! Load: tasks that spend until they are stopped, and the results.

use std::{collections::BTreeMap, error::Error, iter::successors, time::Duration};

use tollgate::{
    Limit, Limiter, Limits, RedisBackend, Transaction, backend::redis::RedisError, id::IdFormat,
    limit::LimitName,
};

use crate::{
    connect,
    eventually::{PATIENCE, eventually_async},
    redis_support::Callers,
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
    let mut causes = successors(Some(error), |cause| (*cause).source());
    let reason = causes.find_map(|cause| cause.downcast_ref::<RedisError>());
    reason.unwrap_or_else(|| panic!("{error}")).clone()
}

/// A spend from some ids, all or none, and whether it has passed.
#[derive(Debug)]
pub(crate) struct Spend {
    ids: Vec<String>,
    pub(crate) passed: Result<bool, RedisError>,
}

/// Tasks that spend until they are stopped.
pub(crate) type Load = Callers<Spend>;

/// Starts tasks that spend from the ids that `ids` returns for the number of the call.
pub(crate) fn load(
    limiter: &Limiter,
    limit: &'static str,
    tasks: usize,
    ids: impl Fn(usize) -> Vec<String> + Send + Sync + 'static,
) -> Load {
    let limiter = limiter.clone();
    let mut load = Load::new();
    load.start(tasks, move |number| {
        let limiter = limiter.clone();
        let ids = ids(number);
        async move {
            let passed = spend(&limiter, limit, &ids).await;
            Spend { ids, passed }
        }
    });
    load
}

/// The results of a load.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// How often each id was admitted.
    pub(crate) admitted: BTreeMap<String, u32>,
    errors: Vec<RedisError>,
}

impl Tally {
    /// Stops a load.
    pub(crate) async fn of(load: Load) -> Self {
        let mut tally = Self::default();
        for Spend { ids, passed } in load.stop().await {
            match passed {
                Ok(true) => {
                    for id in ids {
                        *tally.admitted.entry(id).or_default() += 1;
                    }
                }
                Ok(false) => {}
                Err(error) => tally.errors.push(error),
            }
        }
        tally
    }

    /// The most that any id was admitted.
    pub(crate) fn most(&self) -> u32 {
        self.admitted.values().copied().max().unwrap_or(0)
    }

    #[track_caller]
    pub(crate) fn assert_no_errors(&self) {
        assert!(self.errors.is_empty(), "{:?}", self.errors);
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
