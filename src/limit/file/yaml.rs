//! Reads YAML by the events of a parser, because serde-based YAML parsers turn ids into numbers.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::{MAX_DEPTH, MapKey, Node, ParseResult, Value, too_deep};
use crate::limit::mistake::odd_space;

/// The most values that anchors and aliases can stand for in total, so that a small file cannot become a huge one.
const MAX_COPIED: usize = 100_000;

/// The longest key, in characters. A set of names can be a key.
const MAX_KEY: usize = 1 << 16;

/// Parses a text. A text without a document has no content.
pub(super) fn parse(text: &str) -> ParseResult<Node<'_>> {
    let options =
        granit_parser::options! { emit_comments: false, simple_key_max_lookahead: MAX_KEY };
    let mut reader = YamlReader {
        text,
        events: Parser::new_from_str_with_options(text, options),
        anchors: HashMap::new(),
        read: 0,
        copied: 0,
    };
    let mut root = None;
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamEnd => return Ok(root.unwrap_or(Node::new(1, Value::Nothing))),
            Event::DocumentStart(..) if root.is_some() => {
                let message = "a second document begins: use one for each file";
                return mistake(span.start.line() as u64, message);
            }
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
            event => root = Some(reader.node(event, span, MAX_DEPTH)?),
        }
    }
}

struct YamlReader<'a> {
    text: &'a str,
    events: Parser<'a, StrInput<'a>>,
    /// The nodes with an anchor, by the number of the anchor, each with its number of values.
    anchors: HashMap<usize, (Node<'a>, usize)>,
    read: usize,
    copied: usize,
}

impl<'a> YamlReader<'a> {
    fn next(&mut self) -> ParseResult<(Event<'a>, Span)> {
        let end = (Event::StreamEnd, Span::default());
        let event = self.events.next_event().unwrap_or(Ok(end));
        event.map_err(|scan| mistake_of(self.text, &scan))
    }

    /// Reads the node that begins with an event, with at most `depth` levels.
    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> ParseResult<Node<'a>> {
        let line = span.start.line() as u64;
        let below = depth.checked_sub(1).ok_or_else(|| too_deep(line))?;
        let (value, anchor) = match event {
            Event::Scalar(_, ScalarStyle::Plain, anchor, _) if span.is_empty() => {
                (Value::Nothing, anchor)
            }
            Event::Scalar(text, _, anchor, _) => (Value::Text(text), anchor),
            Event::SequenceStart(_, anchor, _) => (self.list(below)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.map(below)?, anchor),
            Event::Alias(anchor) => (self.copy(anchor, line)?, 0),
            _ => (Value::Nothing, 0),
        };
        self.read += 1;
        let node = Node::new(line, value);
        if anchor != 0 {
            let size = size(&node);
            self.count(size, line)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> ParseResult<Value<'a>> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd | Event::StreamEnd, _) => return Ok(Value::List(items)),
                (event, span) => items.push(self.node(event, span, depth)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> ParseResult<Value<'a>> {
        let mut entries = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if let Event::MappingEnd | Event::StreamEnd = event {
                return Ok(Value::Map(entries));
            }
            let key = key(self.node(event, span, depth)?)?;
            let (event, span) = self.next()?;
            entries.push((key, self.node(event, span, depth)?));
        }
    }

    fn copy(&mut self, anchor: usize, line: u64) -> ParseResult<Value<'a>> {
        let Some((_, size)) = self.anchors.get(&anchor) else {
            let message = "an alias refers to its own anchor: write the value out";
            return mistake(line, message);
        };
        self.count(*size, line)?;
        Ok(self.anchors[&anchor].0.value.clone())
    }

    /// Counts the values of a copy, and rejects too many. An anchor around the whole file is allowed, but nested anchors add up.
    fn count(&mut self, size: usize, line: u64) -> ParseResult<()> {
        self.copied += size;
        if self.copied <= MAX_COPIED + 2 * self.read {
            Ok(())
        } else {
            mistake(line, "aliases expand to too many values: write them out")
        }
    }
}

fn key(node: Node<'_>) -> ParseResult<MapKey<'_>> {
    let line = node.line;
    match node.value {
        Value::Text(text) => Ok(MapKey { line, text }),
        Value::Nothing => mistake(line, "a key is missing before a `:`"),
        value => mistake(line, format!("a key is {value}: use text")),
    }
}

/// Returns the number of values in a node. A long text counts as several short ones.
fn size(node: &Node<'_>) -> usize {
    let long = |text: &str| text.len() / 64;
    1 + match &node.value {
        Value::Nothing => 0,
        Value::Text(text) => long(text),
        Value::List(items) => items.iter().map(size).sum(),
        Value::Map(entries) => {
            let entries = entries.iter();
            entries
                .map(|(key, node)| 1 + long(&key.text) + size(node))
                .sum()
        }
    }
}

fn mistake<T>(line: u64, message: impl Into<String>) -> ParseResult<T> {
    Err((line, message.into()))
}

fn mistake_of(text: &str, scan: &ScanError) -> (u64, String) {
    let line = scan.marker().line();
    // The mistake is in the reported line or in the next one.
    let near = line.saturating_sub(1);
    let by_tab = |line: &str| line[..line.len() - line.trim_start().len()].contains('\t');
    let mut lines = text.lines().enumerate().skip(near).take(2);
    if let Some((index, _)) = lines.find(|(_, line)| by_tab(line)) {
        let message = "a tab indents this line: YAML takes spaces only";
        return (1 + index as u64, message.to_owned());
    }
    let mut lines = text
        .lines()
        .enumerate()
        .skip(near.saturating_sub(1))
        .take(3);
    if let Some((index, space)) =
        lines.find_map(|(index, line)| Some((index, misplaced_space(line)?)))
    {
        let message = format!("{space}, is in this line: write a plain space");
        return (1 + index as u64, message);
    }
    let theirs = scan.info();
    let has = |part: &str| theirs.contains(part);
    let message = if has("did not find expected key") {
        "this line is indented differently from those around it: indent all fields of a limit equally"
    } else if has("mapping values are not allowed") {
        "a value and a `:` after it: indent this line like the one before, or put text with a `:` in quotes"
    } else if has("simple key expected") {
        "a `:` is missing: write the name of a limit or a field, a colon, a space and a value"
    } else if has("unknown anchor") {
        return (
            line as u64,
            format!("{theirs}: put text that begins with `*` in quotes"),
        );
    } else {
        &theirs
    };
    (line as u64, message.to_owned())
}

/// Returns the name of an unusual space between the signs and the texts of a line, where YAML accepts only plain ones.
fn misplaced_space(line: &str) -> Option<String> {
    let is_sign = |c: char| ":-,?[]{}".contains(c);
    let is_between = |(at, space): (usize, &str)| {
        let before = line[..at].trim_end().ends_with(is_sign);
        let after = line[at + space.len()..].trim_start();
        before || line[..at].trim().is_empty() || after.is_empty() || after.starts_with('#')
    };
    let mut spaces = line
        .match_indices(|c: char| !c.is_ascii())
        .filter(|at| is_between(*at));
    spaces.find_map(|(_, space)| odd_space(space))
}
