//! Standard output, and numbers in words.

use std::{
    fmt::Display,
    io::{self, Write},
    time::Duration,
};

use anyhow::{Context, Result};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use tollgate::limit::format_duration;

use crate::clients::Denials;

/// The form of the result.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportArgs {
    /// Prints the result as JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
    /// The number of clients in a list
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,
}

/// Writes a text to standard output. It is no failure if the reader has closed it.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write the result"),
    }
}

/// Writes a line to standard error, which may be closed.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes a value as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    print(&format!("{}\n", serde_json::to_string(value)?))
}

/// A table whose first columns are texts, and whose others are numbers.
pub(crate) fn table(
    head: &[&str],
    texts: usize,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(head).add_rows(rows);
    for column in table.column_iter_mut().skip(texts) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A table of the denied clients.
pub(crate) fn most_denied(clients: &[&Denials], top: usize) -> Table {
    let rows = clients.iter().take(top).map(|client| {
        let first = instant(client.first);
        let last = instant(client.last);
        vec![shown(&client.id), first, last, grouped(client.denied)]
    });
    table(&["most denied clients", "first", "last", "denied"], 3, rows)
}

/// Returns a text from clients without control characters, which a terminal would obey.
pub(crate) fn shown(text: &str) -> String {
    let chars = text.chars().map(|c| match c {
        '"' | '\'' | '\\' => c.to_string(),
        c => c.escape_debug().to_string(),
    });
    chars.collect()
}

/// A number with its digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(String::from_utf8_lossy)
        .collect();
    groups.join(",")
}

/// A number of things, such as `1 client` or `2 clients`.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(number))
}

/// A number, and in parentheses its share of another.
pub(crate) fn with_percent(part: u64, whole: u64) -> String {
    let hundredths = u128::from(part) * 10_000 / u128::from(whole.max(1));
    let percent = if hundredths == 0 && part > 0 {
        "< 0.01".to_owned()
    } else {
        format!("{}.{:02}", hundredths / 100, hundredths % 100)
    };
    format!("{} ({percent} %)", grouped(part))
}

/// An instant, such as `2026-11-01T00:00:00Z`.
pub(crate) fn instant(us: u64) -> String {
    let us = i64::try_from(us).unwrap_or(i64::MAX);
    jiff::Timestamp::from_microsecond(us).map_or_else(|_| us.to_string(), |at| at.to_string())
}

/// A span of time, in milliseconds or longer units.
pub(crate) fn span(duration: Duration) -> String {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if duration.is_zero() {
        "–".to_owned()
    } else {
        format_duration(Duration::from_millis(ms.max(1)))
    }
}
