//! Server-sent events: where each ends, and which tokens it brings.

use std::io;

use bytes::{Bytes, BytesMut};
use serde::Deserialize;

use super::{meter::Usage, text::TextBytes};

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

/// What an event says about tokens.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Event {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default)]
    delta: TextBytes,
    #[serde(default)]
    text: TextBytes,
}

impl Event {
    /// Reads an event. One that is not JSON, such as `[DONE]`, says nothing.
    pub(crate) fn read(event: &[u8]) -> Self {
        let lines = event.split(|byte| *byte == b'\n');
        let data = lines.filter_map(|line| line.strip_prefix(b"data:"));
        let data: Vec<_> = data.map(<[u8]>::trim_ascii).collect();
        serde_json::from_slice(&data.join(&b'\n')).unwrap_or_default()
    }

    /// The estimate of the tokens in the event: at least one for each choice with text.
    pub(crate) fn tokens(&self) -> u32 {
        let choices = self.choices.iter();
        let tokens = choices.map(|choice| choice.delta.tokens().max(choice.text.tokens()));
        tokens.fold(0, u32::saturating_add)
    }

    pub(crate) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Whether the event only exists because the usage was asked for.
    pub(crate) fn is_only_usage(&self) -> bool {
        self.choices.is_empty() && self.usage.is_some()
    }
}
