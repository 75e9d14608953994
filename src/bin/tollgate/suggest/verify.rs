//! Decides the requests of the clients that a choice stops by the crate's limiter, as `replay` does.

use std::collections::HashSet;

use tollgate::{Limit, Limits, Transaction};

use super::{choice::Choice, measure::Measured, spool::Spool};
use crate::{
    busiest::{Denials, DeniedClients},
    clocked::Clocked,
    failure::Failure,
    key::Key,
};

/// The most bytes of windows.
const HISTORY_BYTES: usize = 512 * 1024 * 1024;

const BUCKETS: usize = 250_000;

const LIMIT: &str = "suggested";

/// A recommended limit, and what it would have done.
pub(crate) struct Recommendation {
    pub(crate) choice: Choice,
    pub(crate) limit: Limit,
    pub(crate) denied: u64,
    /// The denied clients by their hashes, the most denied one first.
    pub(crate) clients: Vec<(u64, Denials)>,
}

impl Recommendation {
    /// The limit as a line for a file of limits.
    pub(crate) fn file_line(&self, key: &Key) -> String {
        let mut fields = match key {
            Key::Ip => vec!["id: ipAddress".to_owned()],
            Key::Range => vec!["id: ipv6RangeCIDR".to_owned()],
            Key::Everyone | Key::Field(_) => Vec::new(),
        };
        // A map of JSON would sort the fields. No name and no value contains a quote, a comma or a colon.
        if let Ok(values) = serde_json::to_string(&self.limit.as_values()) {
            let values = values.trim_matches(['{', '}']).replace('"', "");
            fields.extend(values.split(',').map(|field| field.replace(':', ": ")));
        }
        format!("requests: {{{}}}", fields.join(", "))
    }
}

/// A choice, with a limiter for it.
struct Trial {
    choice: Choice,
    limit: Limit,
    limiter: Clocked,
    /// The clients that need more than the limit admits. No other client can be denied.
    stopped: HashSet<u64>,
    denied: DeniedClients<u64>,
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
            denied: DeniedClients::default(),
            choice,
            limit,
        })
    }

    fn request(&mut self, at: u64, client: u64) {
        let id = format!("{client:016x}");
        let transaction = Transaction::new(LIMIT, &id);
        let decision = self.limiter.at(at).try_spend(&transaction);
        if decision.is_some_and(|decision| decision.is_ok_and(|decision| !decision.allowed())) {
            self.denied.add(&client, at);
        }
    }

    fn recommendation(self) -> Recommendation {
        let clients = self.denied.sorted();
        Recommendation {
            choice: self.choice,
            limit: self.limit,
            denied: clients.iter().map(|(_, denials)| denials.denied).sum(),
            clients,
        }
    }
}
