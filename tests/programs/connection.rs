//! A connection whose requests are written by hand, for those that are garbage, slow, or never end.

use std::{
    io::{BufReader, Read, Write},
    net::TcpStream,
};

use super::{PATIENCE, Response, read_chunk};

/// A connection to an example. Dropping it closes it, also in the middle of a request.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(super) fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the example accepts");
        let timeout = stream.set_read_timeout(Some(PATIENCE));
        timeout.expect("it is not zero");
        Self(BufReader::new(stream))
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let sent = self.0.get_mut().write_all(bytes.as_ref());
        sent.expect("it is sent");
    }

    pub(crate) fn response(&mut self) -> Response {
        Response::read(&mut self.0)
    }

    /// The head of a response, whose body is read by [`chunk`](Self::chunk).
    pub(crate) fn head(&mut self) -> Response {
        Response::read_head(&mut self.0)
    }

    pub(crate) fn chunk(&mut self) -> Option<String> {
        read_chunk(&mut self.0)
    }

    /// Whether something has come back that is not read yet.
    pub(crate) fn is_answered(&self) -> bool {
        let stream = self.0.get_ref();
        stream.set_nonblocking(true).expect("it can be polled");
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false).expect("it can block");
        peeked.is_ok() || !self.0.buffer().is_empty()
    }

    /// Waits until the other end closes or resets it, and returns the bytes received until then.
    pub(crate) fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest);
        String::from_utf8_lossy(&rest).into_owned()
    }
}
