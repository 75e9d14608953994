//! Decides the requests of the clients that a choice stops by the crate's limiter, as `replay` does.

use std::collections::HashSet;

use anyhow::Result;
use tollgate::{Limit, Limits, Transaction};

use super::{
    choice::Choice,
    measure::{Measured, Spool},
};
use crate::{
    clients::{Denials, DeniedClients, Names},
    limits::Clocked,
    log::Key,
};

/// The most bytes of windows.
const HISTORY_BYTES: usize = 512 * 1024 * 1024;

const BUCKETS: usize = 250_000;

const LIMIT: &str = "suggested";

/// A recommended limit, and what it would have done.
pub(super) struct Recommendation {
    pub(super) choice: Choice,
    pub(super) limit: Limit,
    pub(super) denied: u64,
    /// The denied clients, the most denied one first.
    pub(super) clients: Vec<Denials>,
}

impl Recommendation {
    /// The limit as a line for a file of limits.
    pub(super) fn file_line(&self, key: &Key) -> String {
        let format = match key {
            Key::Ip => "id: ipAddress, ",
            Key::Range => "id: ipv6RangeCIDR, ",
            Key::Everyone | Key::Field(_) => "",
        };
        // No name and no value contains a quote, a comma or a colon.
        let values = serde_json::to_string(&self.limit).unwrap_or_default();
        let values = values.trim_matches(['{', '}']).replace('"', "");
        let values = values.replace(',', ", ").replace(':', ": ");
        format!("requests: {{{format}{values}}}")
    }
}

/// A choice, with a limiter for it.
struct Trial {
    choice: Choice,
    limit: Limit,
    limiter: Clocked,
    /// The clients that need more than the limit admits. No other client can be denied.
    stopped: HashSet<u64>,
    denied: DeniedClients,
}

/// Tries the choices.
pub(super) fn verify(
    spool: &mut Spool,
    measured: &Measured,
    choices: Vec<Choice>,
    names: &Names,
) -> Result<Vec<Recommendation>> {
    let trials = choices.into_iter();
    let trials = trials.filter_map(|choice| Trial::new(measured, choice));
    let mut trials: Vec<_> = trials.collect();
    if trials.iter().any(|trial| !trial.stopped.is_empty()) {
        spool.visit(|at, client| {
            let concerned = trials.iter_mut();
            concerned
                .filter(|trial| trial.stopped.contains(&client))
                .for_each(|trial| trial.request(at, client, names));
        })?;
    }
    let tried = trials.into_iter().map(|trial| {
        let clients = trial.denied.sorted();
        Recommendation {
            choice: trial.choice,
            limit: trial.limit,
            denied: clients.iter().map(|denials| denials.denied).sum(),
            clients,
        }
    });
    Ok(tried.collect())
}

impl Trial {
    fn new(measured: &Measured, choice: Choice) -> Option<Self> {
        let limit = choice.candidate.limit(choice.size)?;
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

    fn request(&mut self, at: u64, client: u64, names: &Names) {
        let id = format!("{client:016x}");
        let transaction = Transaction::new(LIMIT, &id);
        let decision = self.limiter.at(at).try_spend(&transaction);
        if decision.is_some_and(|decision| decision.is_ok_and(|decision| !decision.allowed())) {
            self.denied.add(client, at, || names.of(client));
        }
    }
}
