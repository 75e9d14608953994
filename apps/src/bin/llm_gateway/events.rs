//! Splits server-sent events, and counts the tokens in each.

use std::io;

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::Value;

use super::{meter::Usage, text::Tokens};

/// The longest event, in bytes.
const MAX_EVENT: usize = 1024 * 1024;

/// Splits a stream into events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    bytes: BytesMut,
    /// The bytes that have been searched for the end of an event.
    searched: usize,
    /// The start of the line that contains the next byte.
    line: usize,
}

impl Events {
    /// Adds a part of the stream, once all events before it are taken.
    pub(crate) fn push(&mut self, data: &[u8]) -> io::Result<()> {
        if self.bytes.len() > MAX_EVENT {
            return Err(io::Error::other("an event is too long"));
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    /// Takes the next event, with the empty line at its end.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        while let Some(found) = self.bytes[self.searched..].iter().position(|b| *b == b'\n') {
            let end = self.searched + found;
            let line = &self.bytes[self.line..end];
            let is_empty = line.is_empty() || line == b"\r";
            self.searched = end + 1;
            self.line = end + 1;
            if is_empty {
                let event = self.bytes.split_to(end + 1);
                (self.searched, self.line) = (0, 0);
                return Some(event.freeze());
            }
        }
        self.searched = self.bytes.len();
        None
    }

    /// Takes what is left at the end of the stream.
    pub(crate) fn rest(&mut self) -> Option<Bytes> {
        (self.searched, self.line) = (0, 0);
        let rest = self.bytes.split().freeze();
        Some(rest).filter(|rest| !rest.is_empty())
    }
}

/// The tokens of an event.
#[derive(Debug, Default)]
pub(crate) struct Event {
    tokens: u32,
    usage: Option<Usage>,
    has_choices: bool,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Tokens,
    #[serde(default)]
    text: Tokens,
}

impl Event {
    /// Reads an event. An unreadable event counts by its bytes.
    pub(crate) fn read(event: &[u8]) -> Self {
        let event = event.strip_prefix(b"\xef\xbb\xbf").unwrap_or(event);
        let (mut data, mut unread) = (Vec::new(), 0_u32);
        for line in event.split(|byte| matches!(byte, b'\n' | b'\r')) {
            match line.strip_prefix(b"data:") {
                Some(text) if data.is_empty() => data = text.trim_ascii().to_vec(),
                Some(text) => data.extend([b"\n", text.trim_ascii()].concat()),
                None if is_free(line) => {}
                None => unread = unread.saturating_add(Tokens::of(line).count()),
            }
        }
        if data.is_empty() || data == b"[DONE]" {
            return Self {
                tokens: unread,
                ..Self::default()
            };
        }
        let Ok(document) = serde_json::from_slice::<Document>(&data) else {
            let tokens = unread.saturating_add(Tokens::of(&data).count());
            return Self {
                tokens,
                has_choices: true,
                usage: None,
            };
        };
        let choices = document.choices.iter();
        let tokens = choices.map(|choice| choice.delta.count().max(choice.text.count()));
        Self {
            tokens: tokens.fold(unread, u32::saturating_add),
            usage: serde_json::from_value(document.usage).ok(),
            has_choices: !document.choices.is_empty(),
        }
    }

    /// The estimate of the tokens in the event: at least one for each choice with text.
    pub(crate) fn tokens(&self) -> u32 {
        self.tokens
    }

    pub(crate) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Whether the event only exists because the usage was asked for.
    pub(crate) fn is_only_usage(&self) -> bool {
        !self.has_choices && self.usage.is_some()
    }
}

/// Whether a line of an event has no text of the model: a comment, or another field.
fn is_free(line: &[u8]) -> bool {
    const FIELDS: [&[u8]; 4] = [b":", b"event:", b"id:", b"retry:"];
    line.is_empty() || FIELDS.iter().any(|field| line.starts_with(field))
}
