//! The page of `replay`: a card for each limit, with its timeline and the most denied clients.

use std::fmt::Write;

use super::{chart, escaped, table, totals};
use crate::{
    output::{grouped, instant, percent, span},
    replay::{Replay, Tally},
};

pub(super) fn body(replay: &Replay, top: usize) -> String {
    let mut body = format!(
        "<p>{} lines, {} of them unreadable.</p>\n</header>\n<main>\n",
        grouped(replay.end.lines),
        grouped(replay.end.unreadable.count())
    );
    for tally in &replay.tallies {
        add_limit(&mut body, replay, tally, top);
    }
    body.push_str("</main>\n");
    body
}

fn add_limit(body: &mut String, replay: &Replay, tally: &Tally, top: usize) {
    let (clients, stopped) = (tally.clients.count(), tally.clients_denied.count());
    let _ = write!(
        body,
        "<section class=\"card\">\n<div class=\"title\"><h2>{}</h2><code>{}</code></div>\n{}{}",
        escaped(&tally.name),
        escaped(&tally.words),
        totals(&[
            ("requests", grouped(tally.requests)),
            ("denied", grouped(tally.denied)),
            ("clients", grouped(clients)),
            (
                "of them ever denied",
                format!("{} ({})", grouped(stopped), percent(stopped, clients))
            ),
            ("longest wait", span(tally.longest_wait)),
        ]),
        chart::timeline(&tally.timeline),
    );
    if let Some(in_line) = &tally.in_line {
        let _ = writeln!(
            body,
            "<p>If requests waited in line for up to {}, {} would be denied and {} delayed, by at most {}.</p>",
            span(replay.max_wait),
            grouped(in_line.denied),
            grouped(in_line.delayed),
            span(in_line.longest_delay)
        );
    }
    if !tally.most_denied.is_empty() {
        let rows = tally.most_denied.iter().take(top).map(|(id, client)| {
            let (first, last) = (instant(client.first), instant(client.last));
            [id.clone(), grouped(client.denied), first, last]
        });
        body.push_str("<h3>Most denied clients</h3>\n");
        body.push_str(&table(["client", "denied", "first", "last"], rows));
    }
    body.push_str("</section>\n");
}
