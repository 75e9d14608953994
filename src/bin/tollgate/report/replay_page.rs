//! The page of `replay`: a card for each limit, with its timeline and the most denied clients.

use std::fmt::Write;

use super::{
    chart,
    page::{capitalized, denied_clients, escaped, totals},
};
use crate::{
    output::{grouped, span, with_percent},
    replay::{Replay, Tally},
};

pub(super) fn body(replay: &Replay, top: usize) -> String {
    let mut body = format!("<p>{}.</p>\n</header>\n<main>\n", replay.end.sentence());
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
            ("of them ever denied", with_percent(stopped, clients)),
            ("longest wait", span(tally.longest_wait)),
        ]),
        chart::timeline(&tally.timeline),
    );
    if let Some(in_line) = &tally.in_line {
        let sentence = capitalized(&in_line.sentence(replay.max_wait));
        let _ = writeln!(body, "<p>{sentence}</p>");
    }
    if !tally.most_denied.is_empty() {
        let most_denied = tally.most_denied.iter().take(top);
        body.push_str("<h3>Most denied clients</h3>\n");
        body.push_str(&denied_clients(most_denied.cloned()));
    }
    body.push_str("</section>\n");
}
