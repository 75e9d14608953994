//! The table of what clients need: the busiest clients, and shares of all clients.

use std::{cmp::Reverse, iter};

use comfy_table::Table;
use serde::Serialize;

use super::{
    counter::{PERIODS, RequestCounter},
    proposal::is_covered,
    traffic::Traffic,
};
use crate::output::{grouped, shown, table};

/// Shares of the clients, and their thousandths.
const SHARES: [(&str, usize); 4] = [("99.9%", 999), ("99%", 990), ("90%", 900), ("50%", 500)];

/// The numbers of requests: the total, and the most in any span of each period.
#[derive(Serialize)]
pub(super) struct Needs {
    /// The names of the columns, without periods for which the log is too short.
    columns: Vec<&'static str>,
    busiest: Vec<Row>,
    /// The numbers that these shares of the clients do not exceed.
    shares: Vec<Row>,
}

/// A name, and a number for each column.
type Row = (String, Vec<u64>);

impl Needs {
    pub(super) fn of(traffic: &Traffic, top: usize) -> Self {
        let clients = || traffic.clients.iter();
        let requests = clients().map(|client| client.times.len() as u64);
        let mut columns = vec!["requests"];
        let mut numbers: Vec<Vec<u64>> = vec![requests.collect()];
        for (name, us) in PERIODS {
            if is_covered(traffic, us) {
                columns.push(name);
                numbers.push(traffic.needs(RequestCounter::Window(us)));
            }
        }
        let mut order: Vec<_> = clients().enumerate().collect();
        order.sort_by_key(|(_, client)| Reverse(client.times.len()));
        let busiest = order.into_iter().take(top).map(|(index, client)| {
            let row = numbers.iter().map(|column| column[index]).collect();
            (client.id.clone(), row)
        });
        let busiest = busiest.collect();
        for column in &mut numbers {
            column.sort_unstable();
        }
        let shares = SHARES.map(|(share, part)| {
            let index = (traffic.clients.len() * part).div_ceil(1000) - 1;
            (
                share.to_owned(),
                numbers.iter().map(|column| column[index]).collect(),
            )
        });
        Self {
            columns,
            busiest,
            shares: shares.into(),
        }
    }

    pub(super) fn table(&self) -> Table {
        let name = iter::once("clients");
        let head: Vec<_> = name.chain(self.columns.iter().copied()).collect();
        let clients = self.busiest.iter().map(|(id, row)| (shown(id), row));
        let shares = self
            .shares
            .iter()
            .map(|(share, row)| (format!("{share} have at most"), row));
        let rows = clients.chain(shares).map(|(name, row)| {
            iter::once(name)
                .chain(row.iter().copied().map(grouped))
                .collect()
        });
        table(&head, 1, rows)
    }
}
