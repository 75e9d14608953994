//! The limits in force, written while they are sent: a million overrides are never in memory as one text.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    io::{self, BufWriter, Write},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use http_body::Frame;
use serde::{Serialize, Serializer};
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    task,
};
use tollgate::{Limit, Limits};

/// The size of a chunk, in bytes.
const CHUNK: usize = 64 << 10;

/// The most chunks that wait for a slow reader.
const WAITING: usize = 2;

/// Defaults and overrides, in the form of their files.
#[derive(Serialize)]
struct InForce<'a> {
    defaults: Defaults<'a>,
    overrides: Overrides<'a>,
}

struct Defaults<'a>(&'a Limits);

/// A limit in the form of a file of defaults.
#[derive(Serialize)]
struct Default<'a> {
    #[serde(flatten)]
    limit: Option<&'a Limit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    id: String,
    shadow: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    docs: Option<&'a str>,
}

impl Serialize for Defaults<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|named| {
            let default = Default {
                limit: named.limit(),
                number: named.number(),
                id: named.format().to_string(),
                shadow: named.is_shadow(),
                description: named.description(),
                docs: named.docs(),
            };
            (named.name(), default)
        }))
    }
}

struct Overrides<'a>(&'a Limits);

#[derive(Serialize)]
struct Own<'a> {
    #[serde(flatten)]
    limit: &'a Limit,
    ids: [OwnId<'a>; 1],
}

#[derive(Serialize)]
struct OwnId<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<&'a str>,
}

impl Serialize for Overrides<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().flat_map(|named| {
            named.overrides().map(|own| {
                let (id, comment) = (own.id(), own.comment());
                let ids = [OwnId { id, comment }];
                let limit = own.limit();
                BTreeMap::from([(named.name(), Own { limit, ids })])
            })
        }))
    }
}

/// Answers with the limits. A thread writes them for as long as the client reads.
pub(crate) fn respond(limits: Arc<Limits>) -> Response {
    let (sender, receiver) = mpsc::channel(WAITING);
    task::spawn_blocking(move || {
        let mut chunks = BufWriter::with_capacity(CHUNK, Chunks(sender));
        let in_force = InForce {
            defaults: Defaults(&limits),
            overrides: Overrides(&limits),
        };
        let written = serde_json::to_writer(&mut chunks, &in_force).map_err(io::Error::from);
        if let Err(error) = written.and_then(|()| chunks.flush()) {
            tracing::debug!(%error, "nobody reads the limits any more");
        }
    });
    let body = Body::new(ChunkedBody(receiver));
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

/// The writing end of the chunks.
struct Chunks(Sender<Bytes>);

impl Write for Chunks {
    fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Bytes::copy_from_slice(chunk));
        sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(chunk.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The reading end of the chunks.
struct ChunkedBody(Receiver<Bytes>);

impl http_body::Body for ChunkedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = self.0.poll_recv(cx);
        chunk.map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}
