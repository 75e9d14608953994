//! Decides the requests of the clients that a choice stops by the crate's limiter, as `replay` does.

use std::collections::{HashMap, HashSet};

use tollgate::{
    Limiter, Limits, MemoryBackend, Transaction,
    clock::{ManualClock, Timestamp},
};

use super::{
    measure::Measured,
    recommendation::{Choice, DeniedRequests, Recommendation},
    spool::Spool,
};
use crate::failure::Failure;

/// The most bytes of windows.
const HISTORY_BYTES: usize = 512 * 1024 * 1024;

const BUCKETS: usize = 250_000;

const LIMIT: &str = "suggested";

/// A choice, with a limiter for it.
struct Trial {
    choice: Choice,
    limit: tollgate::Limit,
    limiter: Limiter,
    clock: ManualClock,
    /// The clients that need more than the limit admits. No other client can be denied.
    stopped: HashSet<u64>,
    denied: HashMap<u64, DeniedRequests>,
}

/// Tries the choices.
pub(super) fn verify(
    spool: &mut Spool,
    measured: &Measured,
    choices: Vec<Choice>,
) -> Result<Vec<Recommendation>, Failure> {
    let trials = choices.into_iter();
    let mut trials: Vec<_> = trials
        .filter_map(|choice| Trial::new(measured, choice))
        .collect();
    if trials.iter().any(|trial| !trial.stopped.is_empty()) {
        spool.visit(|at, client| {
            let concerned = trials.iter_mut();
            concerned
                .filter(|trial| trial.stopped.contains(&client))
                .for_each(|trial| trial.request(at, client));
        })?;
    }
    Ok(trials.into_iter().map(Trial::recommendation).collect())
}

impl Trial {
    fn new(measured: &Measured, choice: Choice) -> Option<Self> {
        let limit = choice.candidate.limit(choice.size).ok()?;
        let limits = Limits::builder().limit(LIMIT, limit.clone()).build().ok()?;
        let backend = MemoryBackend::with_max_buckets(BUCKETS).max_history_bytes(HISTORY_BYTES);
        let clock = ManualClock::new(Timestamp::from_micros(0));
        let tops = measured.tops[choice.place].iter();
        let stopped = tops.filter(|(need, _)| *need > u64::from(choice.size));
        Some(Self {
            limiter: Limiter::new(limits, backend).with_clock(clock.clone()),
            stopped: stopped.map(|(_, client)| *client).collect(),
            denied: HashMap::new(),
            choice,
            limit,
            clock,
        })
    }

    fn request(&mut self, at: u64, client: u64) {
        self.clock.set(Timestamp::from_micros(at));
        let id = format!("{client:016x}");
        let decision = self.limiter.try_spend(&Transaction::new(LIMIT, &id));
        if decision.is_some_and(|decision| decision.is_ok_and(|decision| !decision.allowed())) {
            let denials = self.denied.entry(client).or_insert(DeniedRequests {
                denied: 0,
                first: at,
                last: at,
            });
            denials.denied += 1;
            denials.last = at;
        }
    }

    fn recommendation(self) -> Recommendation {
        let mut clients: Vec<_> = self.denied.into_iter().collect();
        clients.sort_by_key(|(client, denials)| (u64::MAX - denials.denied, *client));
        Recommendation {
            choice: self.choice,
            limit: self.limit,
            denied: clients.iter().map(|(_, denials)| denials.denied).sum(),
            clients,
        }
    }
}
