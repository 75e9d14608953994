//! Decides the requests of the clients that a choice stops by the crate's limiter, as `replay` does.

use tollgate::{Limit, Limits, Transaction};

use super::{
    choice::Choice,
    measure::{Measured, Traffic},
};
use crate::{
    clients::{Denials, sort},
    limits::Clocked,
    log::Key,
};

/// The most bytes of windows.
const HISTORY_BYTES: usize = 512 * 1024 * 1024;

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

/// Tries a choice.
pub(super) fn verify(
    traffic: &Traffic,
    measured: &Measured,
    choice: Choice,
) -> Option<Recommendation> {
    let limit = choice.candidate.limit(choice.size)?;
    let limits = Limits::builder().limit(LIMIT, limit.clone()).build().ok()?;
    // No client can be denied that needs no more than the limit admits.
    let tops = measured.tops[choice.place].iter();
    let stopped = tops.take_while(|(need, _)| *need > u64::from(choice.size));
    let denied = stopped.filter_map(|(_, client)| denials(traffic, &limits, *client));
    let mut clients: Vec<_> = denied.collect();
    sort(&mut clients);
    Some(Recommendation {
        choice,
        limit,
        denied: clients.iter().map(|denials| denials.denied).sum(),
        clients,
    })
}

/// What a limiter denies to a client, if anything.
fn denials(traffic: &Traffic, limits: &Limits, client: usize) -> Option<Denials> {
    let limiter = Clocked::new(limits.clone(), 1, HISTORY_BYTES);
    let transaction = Transaction::new(LIMIT, traffic.id(client));
    let denied = traffic.of(client).filter(|at| {
        let decision = limiter.at(*at).try_spend(&transaction);
        decision.is_some_and(|decision| decision.is_ok_and(|decision| !decision.allowed()))
    });
    let denied: Vec<_> = denied.collect();
    Some(Denials {
        id: traffic.id(client).to_owned(),
        denied: denied.len() as u64,
        first: *denied.first()?,
        last: *denied.last()?,
    })
}
