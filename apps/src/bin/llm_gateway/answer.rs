//! Passes on the body of an answer, and counts its tokens.

use std::{io, iter, sync::Arc};

use axum::{
    body::Body,
    http::{
        HeaderMap,
        header::{CONTENT_ENCODING, CONTENT_TYPE},
    },
};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use serde::Deserialize;
use tokio::time;

use super::{
    call::Call,
    events::{Event, Events},
    forward::SILENCE,
    meter::Usage,
    text::Tokens,
};

/// The longest answer whose usage is read, in bytes. A longer one costs its reservation.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// An answer on its way to the client.
struct Answer {
    body: Incoming,
    call: Arc<Call>,
    kind: Kind,
}

enum Kind {
    Events(Events),
    /// An unreadable stream, which counts by its bytes.
    Encoded,
    /// The answer so far, or `None` if it is too long or has been read.
    Whole(Option<Vec<u8>>),
}

#[derive(Deserialize)]
struct Reported {
    usage: Option<Usage>,
}

/// Passes an answer on, event by event if it is a stream of events.
pub(crate) fn metered(headers: &HeaderMap, body: Incoming, call: Arc<Call>) -> Body {
    let media_type = headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
    const STREAM: &[u8] = b"text/event-stream";
    let media_type = media_type.and_then(|media| media.get(..STREAM.len()));
    let is_stream = media_type.is_some_and(|media| media.eq_ignore_ascii_case(STREAM));
    // The gateway has asked for `identity`.
    let encoding = headers.get(CONTENT_ENCODING);
    let is_encoded = encoding.is_some_and(|encoding| encoding != "identity");
    let kind = match (is_stream, is_encoded) {
        (true, true) => Kind::Encoded,
        (true, false) => Kind::Events(Events::default()),
        (false, _) => Kind::Whole(Some(Vec::new())),
    };
    // The answer to a failed call is an error, which costs nothing.
    if is_stream && call.meter.used().is_none() {
        call.meter.begin_stream();
    }
    let answer = Answer { body, call, kind };
    Body::from_stream(stream::try_unfold(answer, async |mut answer| {
        let next = answer.next().await?;
        Ok::<_, io::Error>(next.map(|bytes| (bytes, answer)))
    }))
}

impl Answer {
    /// The next part for the client. Dropping the answer closes the connection to the server.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(event) = self.ready() {
                return Ok(Some(event));
            }
            let frame = time::timeout(SILENCE, self.body.frame()).await;
            let frame = frame.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
            let Some(frame) = frame else {
                return Ok(self.rest());
            };
            let Ok(data) = frame.map_err(io::Error::other)?.into_data() else {
                continue;
            };
            match &mut self.kind {
                Kind::Events(events) => events.push(&data)?,
                Kind::Encoded => {
                    self.call.meter.see(Tokens::of(&data).count());
                    return Ok(Some(data));
                }
                Kind::Whole(_) => {
                    self.keep(&data);
                    return Ok(Some(data));
                }
            }
        }
    }

    /// The next whole event for the client.
    fn ready(&mut self) -> Option<Bytes> {
        let Kind::Events(events) = &mut self.kind else {
            return None;
        };
        iter::from_fn(|| events.next()).find(|text| count(&self.call, text))
    }

    /// The rest at the end: in a stream, the last event, if no empty line follows it.
    fn rest(&mut self) -> Option<Bytes> {
        match &mut self.kind {
            Kind::Events(events) => events.rest().filter(|text| count(&self.call, text)),
            Kind::Encoded => None,
            Kind::Whole(_) => {
                self.read();
                None
            }
        }
    }

    fn keep(&mut self, data: &Bytes) {
        if let Kind::Whole(Some(answer)) = &mut self.kind {
            if answer.len() + data.len() <= MAX_ANSWER {
                answer.extend_from_slice(data);
            } else {
                self.kind = Kind::Whole(None);
            }
        }
        // The client may disconnect as soon as it has the last part.
        if self.body.is_end_stream() {
            self.read();
        }
    }

    /// Reads the usage of a whole answer.
    fn read(&mut self) {
        let Kind::Whole(answer) = &mut self.kind else {
            return;
        };
        let is_open = self.call.meter.used().is_none();
        if let Some(answer) = answer.take().filter(|_| is_open)
            && let Ok(Reported { usage: Some(usage) }) = serde_json::from_slice(&answer)
        {
            self.call.meter.report(usage);
        }
    }
}

/// Counts the tokens of an event. Returns whether the client shall see it.
fn count(call: &Call, text: &[u8]) -> bool {
    let event = Event::read(text);
    call.meter.see(event.tokens());
    if let Some(usage) = event.usage() {
        call.meter.report(usage);
    }
    // The gateway has asked for it, and the client may not know such events.
    !event.is_only_usage() || call.asks_usage
}
