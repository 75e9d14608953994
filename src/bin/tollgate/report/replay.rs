//! The result of `replay`, as JSON, tables or a page.

use std::{collections::BTreeMap, fmt::Write};

use serde::Serialize;

use super::{page, replay_page};
use crate::{
    args::ReportArgs,
    failure::Failure,
    output::{grouped, instant, number, print, print_json, span, table, warn, with_percent},
    replay::{Replay, Tally},
};

/// What `--json` prints. It is an interface: `docs/command.md` describes it.
#[derive(Serialize)]
struct Json<'a> {
    lines: u64,
    unreadable: u64,
    limits: BTreeMap<&'a str, JsonLimit<'a>>,
}

#[derive(Serialize)]
struct JsonLimit<'a> {
    requests: u64,
    clients: u64,
    denied: u64,
    clients_denied: u64,
    most_denied: Vec<JsonClient<'a>>,
}

#[derive(Serialize)]
struct JsonClient<'a> {
    id: &'a str,
    denied: u64,
    first: String,
}

/// Writes the result in the requested forms.
pub(crate) fn replayed(replay: &Replay, args: &ReportArgs) -> Result<(), Failure> {
    warn(&replay.end, &replay.notes);
    if let Some(path) = &args.html {
        let body = replay_page::body(replay, args.top);
        page::write(path, "What these limits would have done", &body)?;
    }
    match args.json {
        true => print_json(&Json::of(replay, args.top)),
        false => print(&text(replay, args.top)),
    }
}

impl<'a> Json<'a> {
    fn of(replay: &'a Replay, top: usize) -> Self {
        let limits = replay.tallies.iter();
        let limits = limits.map(|tally| (tally.name.as_str(), JsonLimit::of(tally, top)));
        Self {
            lines: replay.end.lines,
            unreadable: replay.end.unreadable.count(),
            limits: limits.collect(),
        }
    }
}

impl<'a> JsonLimit<'a> {
    fn of(tally: &'a Tally, top: usize) -> Self {
        let most = tally.most_denied.iter().take(top);
        Self {
            requests: tally.requests,
            clients: tally.clients.count(),
            denied: tally.denied,
            clients_denied: tally.clients_denied.count(),
            most_denied: most
                .map(|(id, client)| JsonClient {
                    id,
                    denied: client.denied,
                    first: instant(client.first),
                })
                .collect(),
        }
    }
}

fn text(replay: &Replay, top: usize) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}\n", replay.end.sentence());
    let mut limits = table([
        "limit",
        "values",
        "requests",
        "denied",
        "clients",
        "ever denied",
        "longest wait",
    ]);
    for tally in &replay.tallies {
        let (clients, denied) = (tally.clients.count(), tally.clients_denied.count());
        limits.add_row([
            tally.name.as_str().into(),
            tally.words.as_str().into(),
            number(grouped(tally.requests)),
            number(with_percent(tally.denied, tally.requests)),
            number(grouped(clients)),
            number(with_percent(denied, clients)),
            number(span(tally.longest_wait)),
        ]);
    }
    let _ = writeln!(text, "{limits}");
    for tally in &replay.tallies {
        add_limit(&mut text, replay, tally, top);
    }
    text
}

fn add_limit(text: &mut String, replay: &Replay, tally: &Tally, top: usize) {
    if let Some(in_line) = &tally.in_line {
        let _ = writeln!(
            text,
            "\n{}: {}",
            tally.name,
            in_line.sentence(replay.max_wait)
        );
    }
    if tally.most_denied.is_empty() {
        return;
    }
    let mut clients = table(["most denied", "denied", "first", "last"]);
    for (id, client) in tally.most_denied.iter().take(top) {
        clients.add_row([
            id.escape_debug().to_string().into(),
            number(grouped(client.denied)),
            instant(client.first).into(),
            instant(client.last).into(),
        ]);
    }
    let _ = writeln!(text, "\n{}\n{clients}", tally.name);
}
