//! The simulations of all pages that are open.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use thiserror::Error;

use crate::simulation::Simulation;

/// The most simulations at a time.
const MAX_SESSIONS: usize = 256;

/// A simulation that has not been used for this long can be forgotten to make room.
const IDLE: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Mutex<OpenSessions>,
    /// Creates ids that nobody can guess.
    secret: RandomState,
}

#[derive(Debug, Default)]
struct OpenSessions {
    started: u64,
    sessions: HashMap<String, Session>,
}

#[derive(Debug)]
struct Session {
    simulation: Simulation,
    used: Instant,
}

#[derive(Clone, Copy, Debug, Error)]
pub(crate) enum SessionError {
    #[error("{MAX_SESSIONS} simulations are running: close a page, or wait ten minutes")]
    TooMany,
    #[error("this simulation is over: nothing was asked of it for ten minutes, so start anew")]
    Unknown,
}

impl Sessions {
    /// Stores a simulation, and returns its id.
    pub(crate) fn start(&self, simulation: Simulation) -> Result<String, SessionError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.sessions.len() >= MAX_SESSIONS {
            open.sessions
                .retain(|_, session| session.used.elapsed() < IDLE);
        }
        if open.sessions.len() >= MAX_SESSIONS {
            return Err(SessionError::TooMany);
        }
        open.started += 1;
        let id = format!("{:016x}", self.secret.hash_one(open.started));
        let session = Session {
            simulation,
            used: Instant::now(),
        };
        open.sessions.insert(id.clone(), session);
        Ok(id)
    }

    /// Forgets the simulation with this id, if there is one.
    pub(crate) fn end(&self, id: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.sessions.remove(id);
    }

    /// Runs a function on a simulation.
    pub(crate) fn with<T>(
        &self,
        id: &str,
        work: impl FnOnce(&mut Simulation) -> T,
    ) -> Result<T, SessionError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let session = open.sessions.get_mut(id).ok_or(SessionError::Unknown)?;
        session.used = Instant::now();
        Ok(work(&mut session.simulation))
    }
}
