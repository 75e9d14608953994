//! Proposes limits, with the requests that they would have denied.

use std::cmp::Reverse;

use serde::Serialize;
use tollgate::{Limit, Limits, Transaction};

use super::{
    counter::{DAY, HOUR, RequestCounter},
    traffic::{LogClient, Traffic},
};
use crate::{limits::LogLimiter, log::Key};

/// A proposed limit is this many times the need of the clients that it must not deny.
const ROOM: u64 = 2;

/// The part of a period that a log has to cover, in per cent, to say anything about it. The log of a day is a little shorter.
const COVERED: u64 = 75;

/// The most bytes of windows.
const HISTORY_BYTES: usize = 512 * 1024 * 1024;

const LIMIT: &str = "suggested";

/// A proposed limit, and the requests that it would have denied.
pub(super) struct Proposal {
    pub(super) limit: Limit,
    pub(super) denied: u64,
    /// The denied clients, the most denied one first.
    pub(super) clients: Vec<DeniedClient>,
}

/// The requests of a client that a limit would have denied, as `--json` prints them.
#[derive(Serialize)]
pub(super) struct DeniedClient {
    pub(super) id: String,
    pub(super) requests: u64,
    pub(super) denied: u64,
    /// The burst, limit or quota with which nothing would have been denied.
    pub(super) needs: u64,
}

/// Returns whether the log is long enough for a period.
pub(super) fn is_covered(traffic: &Traffic, us: u64) -> bool {
    (traffic.last - traffic.first) * 100 >= us * COVERED
}

/// Proposes a token bucket, a window and a quota, as far as the log is long enough.
pub(super) fn propose(traffic: &Traffic, at_most: usize) -> Vec<Proposal> {
    let mut proposals = Vec::new();
    if is_covered(traffic, HOUR) {
        let window = RequestCounter::Window(HOUR);
        let most = need_without(at_most, traffic.needs(window));
        let burst = need_without(at_most, traffic.needs(RequestCounter::HourlyBucket(most)));
        let bucket = RequestCounter::HourlyBucket(most * ROOM);
        proposals.push(Proposal::new(traffic, bucket, burst * ROOM));
        proposals.push(Proposal::new(traffic, window, most * ROOM));
    }
    if is_covered(traffic, DAY) {
        let most = need_without(at_most, traffic.needs(RequestCounter::DailyQuota));
        proposals.push(Proposal::new(
            traffic,
            RequestCounter::DailyQuota,
            most * ROOM,
        ));
    }
    proposals.into_iter().flatten().collect()
}

/// Returns the largest of these needs, apart from the `count` largest ones, or the smallest if there are no more.
fn need_without(count: usize, mut needs: Vec<u64>) -> u64 {
    needs.sort_unstable_by_key(|need| Reverse(*need));
    needs[count.min(needs.len() - 1)]
}

impl Proposal {
    /// Tries a limit on the clients that need more than it admits. Others are never denied.
    fn new(traffic: &Traffic, counter: RequestCounter, size: u64) -> Option<Self> {
        let limit = counter.limit(size)?;
        let limits = Limits::builder().limit(LIMIT, limit.clone()).build().ok()?;
        let needs = traffic.clients.iter().zip(traffic.needs(counter));
        let stopped = needs.filter(|(_, needs)| *needs > size);
        let denied = stopped.map(|(client, needs)| DeniedClient {
            id: client.id.clone(),
            requests: client.times.len() as u64,
            denied: denials(client, &limits),
            needs,
        });
        let mut clients: Vec<_> = denied.collect();
        clients.sort_by_key(|client| Reverse(client.denied));
        Some(Self {
            limit,
            denied: clients.iter().map(|client| client.denied).sum(),
            clients,
        })
    }

    /// The limit as a line for a file of limits.
    pub(super) fn file_line(&self, key: &Key) -> String {
        let format = match key {
            Key::Ip => "id: ipAddress, ",
            Key::Range => "id: ipv6RangeCIDR, ",
            Key::Everyone | Key::Field(_) => "",
        };
        // The quotes of JSON can be removed, because no name or value contains a quote, a comma or a colon.
        let values = serde_json::to_string(&self.limit).unwrap_or_default();
        let values = values.trim_matches(['{', '}']).replace('"', "");
        let values = values.replace(',', ", ").replace(':', ": ");
        format!("requests: {{{format}{values}}}")
    }
}

/// How many requests of a client the crate's own limiter denies.
fn denials(client: &LogClient, limits: &Limits) -> u64 {
    let limiter = LogLimiter::new(limits.clone(), 1, HISTORY_BYTES);
    let transaction = Transaction::new(LIMIT, &client.id);
    let denied = client.times.iter().filter(|at| {
        let decision = limiter.at(**at).try_spend(&transaction);
        decision.is_some_and(|decision| decision.is_ok_and(|decision| !decision.allowed()))
    });
    denied.count() as u64
}
