//! Decides the requests of the clients that a choice stops by the crate's limiter, as `replay` does.

use std::collections::{HashMap, HashSet};

use tollgate::{Limits, Transaction};

use super::{
    measure::Measured,
    recommendation::{Choice, Recommendation},
    spool::Spool,
};
use crate::{busiest::Denials, clocked::Clocked, failure::Failure};

/// The most bytes of windows.
const HISTORY_BYTES: usize = 512 * 1024 * 1024;

const BUCKETS: usize = 250_000;

const LIMIT: &str = "suggested";

/// A choice, with a limiter for it.
struct Trial {
    choice: Choice,
    limit: tollgate::Limit,
    limiter: Clocked,
    /// The clients that need more than the limit admits. No other client can be denied.
    stopped: HashSet<u64>,
    denied: HashMap<u64, Denials>,
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
        let tops = measured.tops[choice.place].iter();
        let stopped = tops.filter(|(need, _)| *need > u64::from(choice.size));
        Some(Self {
            limiter: Clocked::new(limits, BUCKETS, HISTORY_BYTES),
            stopped: stopped.map(|(_, client)| *client).collect(),
            denied: HashMap::new(),
            choice,
            limit,
        })
    }

    fn request(&mut self, at: u64, client: u64) {
        let id = format!("{client:016x}");
        let transaction = Transaction::new(LIMIT, &id);
        let decision = self.limiter.at(at).try_spend(&transaction);
        if decision.is_some_and(|decision| decision.is_ok_and(|decision| !decision.allowed())) {
            let denials = self.denied.entry(client);
            denials
                .and_modify(|denials| denials.add(at))
                .or_insert_with(|| Denials::new(at));
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
