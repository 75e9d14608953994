//! YAML, read by the parser's events, because serde-based YAML parsers turn ids into numbers.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::node::{MapKey, Node, SyntaxError, Value};

/// The most values that aliases can stand for in total, so that a small file cannot become a huge one.
const MAX_ALIASED: usize = 100_000;

/// The longest key, in characters. A set of names can be a key.
const MAX_KEY: usize = 1 << 16;

/// What the parser says of lines that are indented wrongly, and what to say instead.
const IN_OUR_WORDS: [(&str, &str); 3] = [
    (
        "did not find expected key",
        "this line is indented differently from those around it: indent all fields of a limit equally",
    ),
    (
        "mapping values are not allowed",
        "a value and a `:` after it: indent this line like the one before, or put text with a `:` in quotes",
    ),
    (
        "simple key expected",
        "a `:` is missing: write the name of a limit or a field, a colon, a space and a value",
    ),
];

/// Parses a text. A text without a document has no content.
pub(super) fn parse(text: &str) -> Result<Node<'_>, SyntaxError> {
    let options =
        granit_parser::options! { emit_comments: false, simple_key_max_lookahead: MAX_KEY };
    let mut tree = Tree::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|scan| indented(text, &scan).unwrap_or(scan.into()))?;
        tree.grow(event, span)?;
    }
    Ok(tree.root.unwrap_or(Node {
        line: 1,
        value: Value::Nothing,
    }))
}

/// The part that has been read so far.
#[derive(Default)]
struct Tree<'a> {
    root: Option<Node<'a>>,
    open: Vec<OpenNode<'a>>,
    /// Nodes with an anchor, by its number, and the number of values in each.
    anchors: HashMap<usize, (Node<'a>, usize)>,
    nodes: usize,
    anchored: usize,
    aliased: usize,
}

/// A list or map whose end has not come yet.
struct OpenNode<'a> {
    node: Node<'a>,
    anchor: usize,
    key: Option<MapKey<'a>>,
}

impl<'a> Tree<'a> {
    fn grow(&mut self, event: Event<'a>, span: Span) -> Result<(), SyntaxError> {
        let line = span.start.line() as u64;
        let open = |value, anchor| OpenNode {
            node: Node { line, value },
            anchor,
            key: None,
        };
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let value = match style {
                    ScalarStyle::Plain if span.is_empty() => Value::Nothing,
                    _ => Value::Text(text),
                };
                self.complete(Node { line, value }, anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open.push(open(Value::List(Vec::new()), anchor));
                Ok(())
            }
            Event::MappingStart(_, anchor, _) => {
                self.open.push(open(Value::Map(Vec::new()), anchor));
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(OpenNode { node, anchor, .. }) => self.complete(node, anchor),
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                let node = self.copy(anchor, line)?;
                self.complete(Node { line, ..node }, 0)
            }
            Event::DocumentStart(..) if self.root.is_some() => Err(error(
                line,
                "a second document begins: use one for each file",
            )),
            _ => Ok(()),
        }
    }

    /// Adds a complete node to its parent.
    fn complete(&mut self, node: Node<'a>, anchor: usize) -> Result<(), SyntaxError> {
        self.nodes += 1;
        if anchor != 0 {
            let size = size(&node);
            // One anchor around everything is allowed. Nested anchors add up.
            let most = MAX_ALIASED + 2 * self.nodes;
            self.anchored = count(self.anchored, size, most, node.line)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        let Some(OpenNode {
            node: parent, key, ..
        }) = self.open.last_mut()
        else {
            self.root = Some(node);
            return Ok(());
        };
        match (&mut parent.value, key.take()) {
            (Value::Map(entries), Some(key)) => entries.push((key, node)),
            (Value::Map(_), None) => *key = Some(self::key(node)?),
            (Value::List(items), _) => items.push(node),
            _ => {}
        }
        Ok(())
    }

    fn copy(&mut self, anchor: usize, line: u64) -> Result<Node<'a>, SyntaxError> {
        let Some((_, size)) = self.anchors.get(&anchor) else {
            return Err(error(
                line,
                "an alias refers to its own anchor: write the value out",
            ));
        };
        self.aliased = count(self.aliased, *size, MAX_ALIASED, line)?;
        Ok(self.anchors[&anchor].0.clone())
    }
}

/// Adds a size to those before it.
fn count(before: usize, size: usize, most: usize, line: u64) -> Result<usize, SyntaxError> {
    let sum = before + size;
    let mistake = || error(line, "aliases expand to too many values: write them out");
    (sum <= most).then_some(sum).ok_or_else(mistake)
}

fn key(node: Node<'_>) -> Result<MapKey<'_>, SyntaxError> {
    let line = node.line;
    match node.value {
        Value::Text(text) => Ok(MapKey { line, text }),
        Value::Nothing => Err(error(line, "a key is missing before a `:`")),
        value => Err(error(line, &format!("a key is {value}: use text"))),
    }
}

/// Returns the number of values in a node. A long text counts like several short ones.
fn size(node: &Node<'_>) -> usize {
    let long = |text: &str| text.len() / 64;
    1 + match &node.value {
        Value::Nothing => 0,
        Value::Text(text) => long(text),
        Value::List(items) => items.iter().map(size).sum(),
        Value::Map(entries) => entries
            .iter()
            .map(|(key, node)| 1 + long(&key.text) + size(node))
            .sum(),
    }
}

/// Returns the error for a mistake in or before a line that is indented by a tab.
fn indented(text: &str, scan: &ScanError) -> Option<SyntaxError> {
    let near = scan.marker().line().saturating_sub(1);
    let mut lines = text.lines().enumerate().skip(near).take(2);
    let by_tab = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        line[..indent].contains('\t')
    };
    let (index, _) = lines.find(|(_, line)| by_tab(line))?;
    let message = "a tab indents this line: YAML takes spaces only";
    Some(error(1 + index as u64, message))
}

fn error(line: u64, message: &str) -> SyntaxError {
    SyntaxError {
        line: Some(line),
        message: message.into(),
    }
}

impl From<ScanError> for SyntaxError {
    fn from(scan: ScanError) -> Self {
        let mut message = scan.info();
        if message.contains("unknown anchor") {
            message.push_str(": put text that begins with `*` in quotes");
        }
        let ours = IN_OUR_WORDS.iter();
        let mut ours = ours.filter(|(theirs, _)| message.contains(theirs));
        let message = ours.next().map_or(&*message, |(_, ours)| ours);
        error(scan.marker().line() as u64, message)
    }
}
