//! The requests of a log in memory, by client.

use std::collections::HashMap;

use anyhow::{Result, ensure};

use super::counter::RequestCounter;
use crate::clients::{hash, kept};

/// The most clients of a log.
const MOST_CLIENTS: usize = 1_000_000;

/// The most requests of a log.
const MOST_REQUESTS: u64 = 50_000_000;

/// The requests of a log.
#[derive(Default)]
pub(super) struct Traffic {
    /// The index of each client, by the hash of its id.
    indexes: HashMap<u64, usize>,
    pub(super) clients: Vec<LogClient>,
    pub(super) requests: u64,
    /// The instants of the first and the last request, in microseconds since the epoch.
    pub(super) first: u64,
    pub(super) last: u64,
}

/// A client, and the instants of its requests in the order of time.
pub(super) struct LogClient {
    pub(super) id: String,
    pub(super) times: Vec<u64>,
}

impl Traffic {
    /// Adds a request, which is not earlier than those before it.
    pub(super) fn add(&mut self, id: &str, at: u64) -> Result<()> {
        let next = self.clients.len();
        let index = *self.indexes.entry(hash(id)).or_insert(next);
        if index == next {
            let id = kept(id);
            let times = Vec::new();
            self.clients.push(LogClient { id, times });
        }
        self.clients[index].times.push(at);
        if self.requests == 0 {
            self.first = at;
        }
        self.last = at;
        self.requests += 1;
        ensure!(
            self.clients.len() <= MOST_CLIENTS && self.requests <= MOST_REQUESTS,
            "the log has more than a million clients or 50 million requests: pass a part of it, such as one day"
        );
        Ok(())
    }

    /// What each client needs.
    pub(super) fn needs(&self, counter: RequestCounter) -> Vec<u64> {
        let clients = self.clients.iter();
        clients.map(|client| counter.need(&client.times)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_of_more_than_a_million_clients_is_refused() {
        let mut traffic = Traffic::default();
        for client in 0..MOST_CLIENTS {
            traffic.add(&client.to_string(), 0).expect("it fits");
        }
        traffic.add("0", 0).expect("it is known");
        let error = traffic.add("another", 0).expect_err("it is one too many");
        assert!(error.to_string().contains("a million clients"), "{error}");
    }

    #[test]
    fn log_of_more_than_50_million_requests_is_refused() {
        let mut traffic = Traffic {
            requests: MOST_REQUESTS - 1,
            ..Traffic::default()
        };
        traffic.add("0", 0).expect("it fits");
        let error = traffic.add("0", 0).expect_err("it is one too many");
        assert!(error.to_string().contains("50 million requests"), "{error}");
    }
}
