//! The tested stack, and three limits: one for each failure mode.

use std::{sync::Arc, time::Duration};

use tokio::runtime::Handle;
use tollgate::{
    Limit, Limiter, Limits, RedisBackend, Transaction,
    backend::{DenyCache, FailurePolicy},
    decision::Source,
    limit::LimitName,
    transaction::OnFailure,
};
use tracing::Dispatch;

use crate::{
    eventually::{PATIENCE, eventually},
    redis_support::Server,
    support::Log,
};

/// The units that each id may spend. None come back during a test.
pub(crate) const BURST: u32 = 20;

/// The default, and what most tests are about.
pub(crate) const DEADLINE: Duration = Duration::from_millis(50);

/// The message that the breaker logs when it opens.
const OPENED: &str = "the rate limit store does not answer: deciding without it";

/// A limiter on a real store, its log, and the number of tasks before it.
#[derive(Debug)]
pub(crate) struct Stack {
    pub(crate) limiter: Limiter,
    pub(crate) deadline: Duration,
    pub(crate) dispatch: Dispatch,
    log: Log,
    tasks_before: usize,
}

impl Stack {
    /// The stack with its defaults, connected.
    pub(crate) async fn connect(url: String) -> Self {
        Self::with_deadline(url, DEADLINE).await
    }

    /// The stack with another deadline, connected.
    pub(crate) async fn with_deadline(url: String, deadline: Duration) -> Self {
        let (stack, backend) = Self::prepare(url, deadline);
        backend.connected(PATIENCE).await.unwrap();
        stack
    }

    /// The stack on a store that may be down.
    pub(crate) fn unconnected(url: String) -> Self {
        Self::prepare(url, DEADLINE).0
    }

    fn prepare(url: String, deadline: Duration) -> (Self, Arc<RedisBackend>) {
        let tasks_before = alive_tasks();
        let (log, _guard) = Log::capture();
        let backend = RedisBackend::builder(url).timeout(deadline.max(Duration::from_millis(250)));
        let backend = Arc::new(backend.build().unwrap());
        let policy = FailurePolicy::new(DenyCache::new(Arc::clone(&backend))).deadline(deadline);
        let stack = Self {
            limiter: Limiter::new(limits(), policy),
            deadline,
            dispatch: tracing::dispatcher::get_default(Dispatch::clone),
            log,
            tasks_before,
        };
        (stack, backend)
    }

    /// Returns how often the breaker has opened.
    pub(crate) fn opened(&self) -> usize {
        self.log.count(OPENED)
    }

    /// The breaker has never opened. If it has, its log says why.
    #[track_caller]
    pub(crate) fn assert_never_opened(&self) {
        assert_eq!(self.opened(), 0, "{:?}", self.log);
    }

    /// Decisions without the store were announced for no other reasons than these, if at all.
    #[track_caller]
    pub(crate) fn assert_announced_only_for(&self, reasons: &[&str]) {
        let count = |reason: &&str| self.log.count(&format!("{OPENED} error={reason}"));
        let for_these: usize = reasons.iter().map(count).sum();
        assert_eq!(self.opened(), for_these, "{:?}", self.log);
    }

    /// Returns how often the breaker has closed.
    pub(crate) fn closed(&self) -> usize {
        self.log.count("the rate limit store answers again")
    }

    /// Drops the limiter, after which there is no task and no connection left.
    #[track_caller]
    pub(crate) fn end<'a>(self, servers: impl IntoIterator<Item = &'a Server>) {
        drop(self.limiter);
        eventually("all tasks have ended", || {
            alive_tasks() <= self.tasks_before
        });
        for server in servers {
            eventually("all connections are closed", || connections(server) == 0);
        }
    }
}

fn alive_tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Returns the number of connections of a server, without this one and those of sentinels, replicas and masters. A master keeps the
/// connection over which it has moved keys for ten more seconds.
pub(crate) fn connections(server: &Server) -> usize {
    const OTHERS: [&str; 3] = [" name=sentinel", " cmd=client", " cmd=restore"];
    let list: String = server.query(&["CLIENT", "LIST", "TYPE", "normal"]);
    let ours = list
        .lines()
        .filter(|line| !OTHERS.iter().any(|other| line.contains(other)));
    ours.count()
}

/// A backend with this timeout, connected.
pub(crate) async fn connect(url: &str, timeout: Duration) -> RedisBackend {
    let backend = RedisBackend::builder(url).timeout(timeout).build().unwrap();
    backend.connected(PATIENCE).await.unwrap();
    backend
}

/// `local`, `refuse` and `allow`. The last one denies no client.
fn limits() -> Limits {
    let few = Limit::per_day(BURST);
    let limits = Limits::builder()
        .limit(name("local", OnFailure::Local), few.clone())
        .limit(name("refuse", OnFailure::Refuse), few)
        .limit(
            name("allow", OnFailure::Allow),
            Limit::per_second(1_000_000).burst(1_000_000),
        );
    limits.build().unwrap()
}

fn name(name: &str, on_failure: OnFailure) -> LimitName {
    LimitName::from(name).on_failure(on_failure)
}

/// The result of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// By the store.
    Allowed,
    /// By the process alone, without the store.
    AllowedLocally,
    Denied,
    /// The store has not decided: it passed by a limit that allows, or it was an error of one that refuses.
    Without,
}

/// Spends one of a limit.
///
/// # Panics
///
/// If the decision is not one of the limit's failure mode.
pub(crate) async fn spend(limiter: &Limiter, limit: &'static str, id: &str) -> Answer {
    match (limit, limiter.spend(&Transaction::new(limit, id)).await) {
        ("refuse", Err(_)) => Answer::Without,
        ("allow", Ok(decision)) if !decision.allowed() => panic!("denied by `allow`"),
        ("allow", Ok(decision)) if !decision.limited() => Answer::Without,
        (_, Ok(decision)) if decision.allowed() => match decision.source() {
            Source::Local => Answer::AllowedLocally,
            _ => Answer::Allowed,
        },
        (_, Ok(_)) => Answer::Denied,
        (_, Err(error)) => panic!("`{limit}` is an error: {error}"),
    }
}

/// Returns the units that a server has charged to a bucket of `local` or `refuse`. None come back during the test.
pub(crate) fn charged(server: &Server, limit: &str, id: &str) -> u32 {
    let interval = 24 * 3600 * 1_000_000 / u64::from(BURST);
    let left = ahead(server, limit, id);
    u32::try_from(left.div_ceil(interval)).unwrap()
}

/// In how many microseconds a bucket is full, by the server that has it.
pub(crate) fn ahead(server: &Server, limit: &str, id: &str) -> u64 {
    let Some(key) = server.key_of(&format!("{limit}:{id}")) else {
        return 0;
    };
    let full: Option<u64> = server.query(&["GET", &key]);
    full.map_or(0, |full| full.saturating_sub(server.time()))
}
