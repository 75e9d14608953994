//! A circuit breaker for each server.

use std::{fmt, time::Instant};

use smallvec::SmallVec;

use super::{
    breaker::{Breaker, Pass},
    server_name::ServerName,
};
use crate::{
    backend::{BackendError, ServerId, Servers},
    decision::Outcome,
    transaction::Batch,
};

/// The breakers of a store: one, or [`BREAKERS`] for a store with several servers. If there are more servers, some share
/// breakers.
#[derive(Debug)]
pub(super) struct Breakers(Box<[Breaker]>);

/// The number of breakers for a store with several servers. The first one is for unknown servers.
const BREAKERS: usize = 64;

impl Breakers {
    /// Creates breakers that open after `threshold` consecutive failures, for a store with one server or with several.
    pub(super) fn new(threshold: u32, has_several: bool) -> Self {
        let breakers = if has_several { BREAKERS } else { 1 };
        Self((0..breakers).map(|_| Breaker::new(threshold)).collect())
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
        let concerned = self.concerned(servers, batch).into_iter();
        let admit = |server| self.of(server).admit(ServerName::new(servers, server));
        concerned.map(admit).collect()
    }

    /// Returns whether the next batch like this one would be let through.
    #[inline]
    pub(super) fn admits(&self, servers: Option<&dyn Servers>, batch: &Batch<'_>) -> bool {
        if let [breaker] = &*self.0 {
            return breaker.admits();
        }
        let mut concerned = self.concerned(servers, batch).into_iter();
        !self.is_open() || concerned.all(|server| self.of(server).admits())
    }

    /// Returns whether all servers of a batch are known to answer.
    pub(super) fn are_closed(&self, servers: Option<&dyn Servers>, batch: &Batch<'_>) -> bool {
        let mut concerned = self.concerned(servers, batch).into_iter();
        concerned.all(|server| !self.of(server).is_open())
    }

    /// Returns whether a breaker is open.
    pub(super) fn is_open(&self) -> bool {
        self.0.iter().any(Breaker::is_open)
    }

    /// Returns whether no breaker has counted a failure since its last success.
    fn are_calm(&self) -> bool {
        self.0.iter().all(Breaker::is_calm)
    }

    fn of(&self, server: ServerId) -> &Breaker {
        let others = self.0.len() - 1;
        match server.number().checked_sub(1) {
            Some(number) if others > 0 => &self.0[1 + number as usize % others],
            _ => &self.0[0],
        }
    }

    /// The servers of a batch, each with a breaker of its own.
    fn concerned(
        &self,
        servers: Option<&dyn Servers>,
        batch: &Batch<'_>,
    ) -> SmallVec<[ServerId; 4]> {
        let Some(servers) = servers else {
            return SmallVec::from_slice(&[ServerId::UNKNOWN]);
        };
        let mut concerned = SmallVec::<[ServerId; 4]>::new();
        for member in batch.members {
            let server = servers.server_of(member);
            let is_new = |known: &ServerId| !std::ptr::eq(self.of(*known), self.of(server));
            if concerned.iter().all(is_new) {
                concerned.push(server);
            }
        }
        concerned
    }
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
            Err(BackendError::Moving(_)) => drop(self),
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
            let concerned = breakers.concerned(servers, self.batch).into_iter();
            let admitted = |server| {
                let address = ServerName::new(servers, server);
                breakers.of(server).admitted(address)
            };
            concerned.map(admitted).collect()
        })
    }
}
