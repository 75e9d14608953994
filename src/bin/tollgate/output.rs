//! Standard output and standard error.

use std::{
    io::{self, Write},
    time::Duration,
};

use comfy_table::{Cell, CellAlignment, Table, presets};
use indicatif::HumanCount;
use serde::Serialize;
use tollgate::limit::format_duration;

use crate::{failure::Failure, log::LogEnd};

/// Writes a text to standard output. A reader that has seen enough is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Failure::Output),
    }
}

/// Writes a value as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(value).expect("it has text keys only");
    print(&format!("{json}\n"))
}

/// Writes warnings to standard error, which may be closed.
pub(crate) fn warn(end: &LogEnd, notes: &[String]) {
    let mut out = io::stderr().lock();
    let _ = write!(out, "{}", end.unreadable);
    if end.late > 0 {
        let late = grouped(end.late);
        let _ = writeln!(
            out,
            "requests far out of order, which count at the latest instant before them (sort the log by time to count them exactly): {late}"
        );
    }
    for note in notes {
        let _ = writeln!(out, "{note}");
    }
}

/// A table with these headings.
pub(crate) fn table<const N: usize>(headings: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(headings);
    table
}

/// A cell with a number.
pub(crate) fn number(text: impl Into<String>) -> Cell {
    Cell::new(text.into()).set_alignment(CellAlignment::Right)
}

/// A number with its digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

/// A number, and in parentheses its share of another.
pub(crate) fn with_percent(part: u64, whole: u64) -> String {
    format!("{} ({})", HumanCount(part), percent(part, whole))
}

/// A share in per cent, with two decimals.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    let hundredths = u128::from(part) * 10_000 / u128::from(whole);
    match (hundredths, part) {
        (0, 1..) => "< 0.01 %".to_owned(),
        _ => format!("{}.{:02} %", hundredths / 100, hundredths % 100),
    }
}

/// An instant, such as `2026-11-01T00:00:00Z`.
pub(crate) fn instant(us: u64) -> String {
    let us = i64::try_from(us).unwrap_or(i64::MAX);
    jiff::Timestamp::from_microsecond(us).map_or_else(|_| us.to_string(), |at| at.to_string())
}

/// A span of time, in milliseconds or longer units.
pub(crate) fn span(duration: Duration) -> String {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    match duration.is_zero() {
        true => "–".to_owned(),
        false => format_duration(Duration::from_millis(ms.max(1))),
    }
}
