//! A circuit breaker for each server.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use smallvec::SmallVec;

use super::breaker::{Breaker, Pass, ServerName};
use crate::{
    backend::{BackendError, ServerId, Servers},
    decision::Outcome,
    transaction::Batch,
};

/// The breakers of a store. A store with several servers has one for each server that has failed, as long as it is one of
/// the store's servers.
#[derive(Debug)]
pub(super) struct Breakers {
    threshold: u32,
    deadline: Duration,
    /// The breaker of a store with one server, or of the unknown servers of another store.
    first: Arc<Breaker>,
    others: ArcSwap<Vec<(ServerId, Arc<Breaker>)>>,
}

impl Breakers {
    /// Creates breakers that open after `threshold` consecutive failures of calls with a deadline.
    pub(super) fn new(threshold: u32, deadline: Duration) -> Self {
        Self {
            threshold,
            deadline,
            first: Arc::new(Breaker::new(threshold, deadline)),
            others: ArcSwap::default(),
        }
    }

    /// Returns new breakers with another threshold.
    pub(super) fn with_threshold(&self, threshold: u32) -> Self {
        Self::new(threshold, self.deadline)
    }

    /// Returns new breakers for calls with another deadline.
    pub(super) fn with_deadline(&self, deadline: Duration) -> Self {
        Self::new(self.threshold, deadline)
    }

    /// Lets a batch through, unless one of its servers is known not to answer.
    #[inline]
    pub(super) fn admit<'a>(
        &'a self,
        servers: Option<&'a dyn Servers>,
        batch: &'a Batch<'a>,
    ) -> Option<Passes<'a>> {
        let mut admitted = Passes {
            breakers: self,
            servers,
            batch,
            since: servers.map(|_| Instant::now()),
            passes: None,
        };
        // As long as nothing fails, it does not matter which servers a batch goes to.
        if !self.are_calm() {
            admitted.passes = Some(self.admit_each(servers, batch)?);
        }
        Some(admitted)
    }

    #[inline(never)]
    fn admit_each<'a>(
        &'a self,
        servers: Option<&'a dyn Servers>,
        batch: &Batch<'_>,
    ) -> Option<EachPass<'a>> {
        self.forget_servers_that_are_gone(servers);
        let concerned = concerned(servers, batch).into_iter();
        let admit = |server| {
            self.of(servers, server)
                .admit(ServerName::new(servers, server))
        };
        concerned.map(admit).collect()
    }

    /// Returns whether all servers of a batch are known to answer.
    pub(super) fn are_closed(&self, servers: Option<&dyn Servers>, batch: &Batch<'_>) -> bool {
        let mut concerned = concerned(servers, batch).into_iter();
        // A server without a breaker has never failed.
        concerned.all(|server| self.find(server).is_none_or(|breaker| !breaker.is_open()))
    }

    /// Returns whether a breaker of a server is open, or decisions are made without it for another reason.
    pub(super) fn are_shown(&self, servers: Option<&dyn Servers>) -> bool {
        self.forget_servers_that_are_gone(servers);
        let others = self.others.load();
        self.first.is_shown() || others.iter().any(|(_, breaker)| breaker.is_shown())
    }

    /// Records a decision that was made without asking the servers of a batch.
    #[cold]
    pub(super) fn passed_over(
        &self,
        servers: Option<&dyn Servers>,
        batch: &Batch<'_>,
        reason: &dyn fmt::Display,
    ) {
        for server in concerned(servers, batch) {
            let breaker = self.of(servers, server);
            breaker.passed_over(ServerName::new(servers, server), reason);
        }
    }

    /// Returns whether the store has decided last, on each server, and no call has failed since.
    fn are_calm(&self) -> bool {
        let others = self.others.load();
        self.first.is_calm() && others.iter().all(|(_, breaker)| breaker.is_calm())
    }

    fn find(&self, server: ServerId) -> Option<Arc<Breaker>> {
        if server == ServerId::UNKNOWN {
            return Some(Arc::clone(&self.first));
        }
        let others = self.others.load();
        let mut others = others.iter();
        let found = others.find(|(known, _)| *known == server);
        found.map(|(_, breaker)| Arc::clone(breaker))
    }

    /// Returns the breaker of a server, and creates it if necessary.
    fn of(&self, servers: Option<&dyn Servers>, server: ServerId) -> Arc<Breaker> {
        if let Some(breaker) = self.find(server) {
            return breaker;
        }
        self.forget_servers_that_are_gone(servers);
        let made = Arc::new(Breaker::new(self.threshold, self.deadline));
        self.others.rcu(|others| {
            let mut others = Vec::clone(others);
            if others.iter().all(|(known, _)| *known != server) {
                others.push((server, Arc::clone(&made)));
            }
            others
        });
        self.find(server).unwrap_or(made)
    }

    /// Drops the breakers of servers that were replaced.
    fn forget_servers_that_are_gone(&self, servers: Option<&dyn Servers>) {
        let Some(servers) = servers else { return };
        let is_current = |(server, _): &(ServerId, _)| servers.is_current(*server);
        if !self.first.is_calm() && !servers.is_current(ServerId::UNKNOWN) {
            self.first.reset();
        }
        if self.others.load().iter().all(is_current) {
            return;
        }
        let before = self.others.rcu(|others| {
            let others = others.iter().filter(|other| is_current(other));
            others.cloned().collect::<Vec<_>>()
        });
        let gone = before.iter().filter(|other| !is_current(other));
        gone.for_each(|(_, breaker)| breaker.retire());
    }
}

/// Returns the servers of a batch.
fn concerned(servers: Option<&dyn Servers>, batch: &Batch<'_>) -> SmallVec<[ServerId; 4]> {
    let Some(servers) = servers else {
        return SmallVec::from_slice(&[ServerId::UNKNOWN]);
    };
    let mut concerned = SmallVec::<[ServerId; 4]>::new();
    for member in batch.members {
        let server = servers.server_of(member);
        if !concerned.contains(&server) {
            concerned.push(server);
        }
    }
    concerned
}

/// A batch that was let through to its servers. If it is dropped, no breaker counts it.
pub(super) struct Passes<'a> {
    breakers: &'a Breakers,
    servers: Option<&'a dyn Servers>,
    batch: &'a Batch<'a>,
    /// The start of the call, if there are several servers.
    since: Option<Instant>,
    /// `None` if no breaker was involved.
    passes: Option<EachPass<'a>>,
}

type EachPass<'a> = SmallVec<[Pass<'a>; 1]>;

impl<'a> Passes<'a> {
    /// Counts the end of the call.
    #[inline]
    pub(super) fn ended(self, answer: &Result<Outcome, BackendError>) {
        match answer {
            Ok(_) | Err(BackendError::InvalidNow(_)) => self.succeeded(),
            // Neither a success nor a failure of the server.
            Err(BackendError::Undecidable(_)) => drop(self),
            Err(BackendError::Moving(error)) => {
                let passes = self.each().into_iter();
                passes.for_each(|pass| pass.moved(error));
            }
            Err(BackendError::Unavailable(error) | BackendError::NotDone(error)) => {
                self.failed(error);
            }
        }
    }

    fn succeeded(self) {
        if self.passes.is_some() || !self.breakers.are_calm() {
            self.each().into_iter().for_each(Pass::succeeded);
        }
    }

    /// Counts a failure of the batch's server. If the batch has several servers, only those without a decision since
    /// the start of the call are counted.
    fn failed(self, error: &dyn fmt::Display) {
        let since = self.since;
        let passes = self.each();
        let has_several = passes.len() > 1;
        for pass in passes {
            let address = pass.address().filter(|_| has_several).zip(since);
            match address.is_some_and(|(address, since)| address.has_decided(since)) {
                true => drop(pass),
                false => pass.failed(error),
            }
        }
    }

    #[inline(never)]
    fn each(self) -> EachPass<'a> {
        let Self {
            breakers, servers, ..
        } = self;
        self.passes.unwrap_or_else(|| {
            let concerned = concerned(servers, self.batch).into_iter();
            let admitted = |server| {
                let address = ServerName::new(servers, server);
                breakers.of(servers, server).admitted(address)
            };
            concerned.map(admitted).collect()
        })
    }
}
