//! The page of `suggest`: the curve, and a card for each recommendation.

use std::fmt::Write;

use super::{
    curve,
    page::{capitalized, denied_clients, escaped, totals},
};
use crate::{
    bound::Bound,
    output::{grouped, percent},
    suggest::{Recommendation, Suggestion},
};

pub(super) fn body(suggestion: &Suggestion, top: usize) -> String {
    let mut body = format!(
        "<p>{}. {}.</p>\n</header>\n<main>\n",
        suggestion.traffic(),
        capitalized(&suggestion.allowance()),
    );
    for recommendation in &suggestion.recommendations {
        add_recommendation(&mut body, suggestion, recommendation, top);
    }
    let _ = write!(
        body,
        "<section class=\"card\">\n<div class=\"title\"><h2>Burst against rate</h2></div>\n\
         <p>The smallest burst for each rate: one that denies nobody, and one that denies at most the share of clients.</p>\n{}</section>\n</main>\n",
        curve::curve(suggestion)
    );
    body
}

fn add_recommendation(
    body: &mut String,
    suggestion: &Suggestion,
    recommendation: &Recommendation,
    top: usize,
) {
    let measured = &suggestion.measured;
    let (denied, stopped) = (recommendation.denied, recommendation.clients.len() as u64);
    let bound = Bound::of(&recommendation.limit);
    let bound = bound.map_or_else(String::new, |bound| format!(" It admits at most {bound}."));
    let _ = write!(
        body,
        "<section class=\"card\">\n<div class=\"title\"><h2>{}</h2></div>\n{}<p>{}.{bound}</p>\n<pre><code>{}</code></pre>\n",
        escaped(&recommendation.limit.to_string()),
        totals(&[
            ("denied", grouped(denied)),
            ("of all requests", percent(denied, measured.requests)),
            ("clients ever denied", grouped(stopped)),
            ("of all clients", percent(stopped, measured.clients)),
        ]),
        escaped(&capitalized(&recommendation.choice.reason)),
        escaped(&recommendation.file_line(&suggestion.key)),
    );
    if stopped > 0 {
        let most_denied = recommendation.clients.iter().take(top);
        let most_denied =
            most_denied.map(|(client, denials)| (suggestion.names.of(*client), *denials));
        body.push_str(&denied_clients(most_denied));
    }
    body.push_str("</section>\n");
}
