//! The formats of lines. Each is a type that parses a line once, and is then asked for the parts that are wanted.

use std::{borrow::Cow, net::IpAddr};

use super::{
    LogArgs, Record, Wanted,
    json::JsonLine,
    text::{CommonLine, ExtendedLine},
    unreadable::Reason,
};

/// The mark with which some programs begin a file in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The directives of W3C extended logs.
const DIRECTIVES: [&str; 7] = [
    "Version",
    "Fields",
    "Software",
    "Date",
    "Start-Date",
    "End-Date",
    "Remark",
];

/// A line in one format.
pub(super) trait Line {
    /// The instant of the request.
    fn time(&self, args: &LogArgs) -> Result<u64, Reason>;

    /// The client's address.
    fn address(&self, args: &LogArgs) -> Result<IpAddr, Reason>;

    /// The method and the path without the query, as far as they are known.
    fn request(&self) -> (String, String);

    /// The value of a field.
    fn field(&self, name: &str) -> Option<Cow<'_, str>>;
}

/// Reads lines, and remembers what the directives of a W3C extended log say about the next ones.
#[derive(Default)]
pub(super) struct Formats {
    columns: Vec<String>,
}

impl Formats {
    /// Reads a line; `None` for a directive.
    pub(super) fn read(
        &mut self,
        line: &[u8],
        args: &LogArgs,
        wanted: &Wanted,
    ) -> Option<Result<Record, Reason>> {
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        let line = line.trim_ascii_start();
        if line.first() == Some(&b'{') {
            return Some(JsonLine::parse(line).and_then(|line| record(&line, args, wanted)));
        }
        let text = &*String::from_utf8_lossy(line);
        if let Some((name, value)) = directive(text) {
            if name == "Fields" {
                self.columns = value.split_whitespace().map(str::to_owned).collect();
            }
            return None;
        }
        Some(if !self.columns.is_empty() {
            ExtendedLine::parse(text, &self.columns).and_then(|line| record(&line, args, wanted))
        } else if let Some(line) = CommonLine::of_balancer(text) {
            record(&line, args, wanted)
        } else {
            CommonLine::parse(text).and_then(|line| record(&line, args, wanted))
        })
    }
}

fn directive(text: &str) -> Option<(&str, &str)> {
    let directive = text.strip_prefix('#')?.split_once(':')?;
    DIRECTIVES.contains(&directive.0).then_some(directive)
}

fn record(line: &impl Line, args: &LogArgs, wanted: &Wanted) -> Result<Record, Reason> {
    let ids = wanted.keys.iter().map(|key| key.id(line, args));
    let (method, path) = match wanted.request {
        true => line.request(),
        false => Default::default(),
    };
    Ok(Record {
        at: line.time(args)?,
        ids: ids.collect::<Result<_, _>>()?,
        method,
        path,
    })
}
