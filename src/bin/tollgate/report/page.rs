//! `--html`: the result as one self-contained page, in the style of the simulator. It has no scripts.

use std::{fs, path::Path};

use crate::{
    busiest::Denials,
    failure::Failure,
    output::{grouped, instant},
};

const LOOK: &str = include_str!("../../../../examples/shared/look.css");
const OWN: &str = include_str!("page.css");

/// Writes a page with this title and content.
pub(super) fn write(path: &Path, title: &str, body: &str) -> Result<(), Failure> {
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{LOOK}{OWN}</style>\n</head>\n<body>\n<header class=\"top\">\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
    );
    fs::write(path, page).map_err(|error| Failure::Report {
        path: path.display().to_string(),
        error,
    })
}

/// Text for the page. Ids come from clients.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() => escaped.extend(c.escape_default()),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A table of denied clients.
pub(super) fn denied_clients(clients: impl Iterator<Item = (String, Denials)>) -> String {
    let row = |cells: [&str; 4], tag: &str| {
        let cells = cells.map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
        format!("<tr>{}</tr>\n", cells.concat())
    };
    let head = row(["client", "denied", "first", "last"], "th");
    let body: String = clients
        .map(|(client, denials)| {
            let (denied, first) = (grouped(denials.denied), instant(denials.first));
            row([&client, &denied, &first, &instant(denials.last)], "td")
        })
        .collect();
    format!(
        "<div class=\"wide\"><table>\n<thead>{head}</thead>\n<tbody>{body}</tbody>\n</table></div>\n"
    )
}

pub(super) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

/// Numbers with what they count.
pub(super) fn totals<const N: usize>(totals: &[(&str, String); N]) -> String {
    let totals: String = totals
        .iter()
        .map(|(what, number)| {
            let class = if *what == "denied" {
                " class=\"bad\""
            } else {
                ""
            };
            format!("<div{class}><dt>{what}</dt><dd>{number}</dd></div>")
        })
        .collect();
    format!("<dl class=\"totals\">{totals}</dl>\n")
}
