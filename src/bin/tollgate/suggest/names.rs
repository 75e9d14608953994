//! The ids of the busiest clients. The rest of the work needs hashes only.

use std::collections::HashMap;

/// The most clients whose ids are kept.
const KEPT: usize = 65_536;

/// The longest part of an id that is kept, in characters.
const LONGEST_ID: usize = 256;

/// Ids by hash. When there are too many, the half with the fewest requests is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<u64, (u64, Box<str>)>);

impl Names {
    pub(super) fn add(&mut self, client: u64, id: &str) {
        if let Some((requests, _)) = self.0.get_mut(&client) {
            *requests += 1;
            return;
        }
        if self.0.len() >= KEPT {
            let mut counts: Vec<_> = self.0.values().map(|(requests, _)| *requests).collect();
            let middle = counts.len() / 2;
            let (_, median, _) = counts.select_nth_unstable(middle);
            let median = *median;
            self.0.retain(|_, (requests, _)| *requests > median);
        }
        let id: String = id.chars().take(LONGEST_ID).collect();
        self.0.insert(client, (1, id.into()));
    }

    /// The id of a client, or what stands for it.
    pub(crate) fn of(&self, client: u64) -> String {
        match self.0.get(&client) {
            Some((_, id)) => id.escape_debug().to_string(),
            None => format!("(a client with few requests, {client:016x})"),
        }
    }
}
