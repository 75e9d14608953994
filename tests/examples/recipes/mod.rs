//! The examples that are recipes, over HTTP: their promises hold for clients that hurry, make mistakes or disconnect.

#![cfg(all(feature = "axum", feature = "yaml"))]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod login_failures;
mod plans;

use std::thread;

use crate::programs::{Program, Response, Server};

fn start(name: &str) -> (Program, Server) {
    let program = Program::start_anywhere(name);
    let server = program.next_server();
    (program, server)
}

/// Returns the results of several clients that send the same request at the same time.
fn at_once<T: Send>(clients: usize, request: impl Fn(usize) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let request = &request;
        let clients = (0..clients).map(|client| scope.spawn(move || request(client)));
        let clients: Vec<_> = clients.collect();
        let done = clients.into_iter().map(|client| client.join().unwrap());
        done.collect()
    })
}

/// Returns the number of responses with a status.
fn count(responses: &[Response], status: u16) -> usize {
    let with = responses
        .iter()
        .filter(|response| response.status == status);
    with.count()
}

/// Returns the remaining number of the only limit in a response's `RateLimit`.
fn remaining(response: &Response) -> u32 {
    let field = response.header("ratelimit").unwrap();
    let (_, remaining) = field.split_once(";r=").unwrap();
    let (remaining, _) = remaining.split_once(';').unwrap_or((remaining, ""));
    remaining.parse().unwrap()
}
