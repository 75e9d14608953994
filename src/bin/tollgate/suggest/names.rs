//! The ids of the busiest clients. The rest of the work needs hashes only.

use std::collections::HashMap;

use crate::busiest::{kept, make_room};

/// Ids by hash. When there are too many, the half with the fewest requests is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<u64, (u64, String)>);

impl Names {
    pub(super) fn add(&mut self, client: u64, id: &str) {
        if let Some((requests, _)) = self.0.get_mut(&client) {
            *requests += 1;
            return;
        }
        make_room(&mut self.0, |(requests, _)| *requests);
        self.0.insert(client, (1, kept(id)));
    }

    /// The id of a client, or what stands for it.
    pub(crate) fn of(&self, client: u64) -> String {
        match self.0.get(&client) {
            Some((_, id)) => id.escape_debug().to_string(),
            None => format!("(a client with few requests, {client:016x})"),
        }
    }
}
