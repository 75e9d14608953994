//! The server behind the gateway, played by the test: it sees each call, and answers as the test says.

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::eventually::PATIENCE;

pub(super) struct Upstream {
    address: SocketAddr,
    connections: Receiver<TcpStream>,
}

/// A call that has arrived.
pub(super) struct Asked {
    stream: BufReader<TcpStream>,
    pub(super) head: String,
    pub(super) body: Value,
}

impl Upstream {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, connections) = mpsc::channel();
        // It ends when the test does.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if sender.send(stream).is_err() {
                    return;
                }
            }
        });
        Self {
            address,
            connections,
        }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for the next call. Each has a connection of its own, because each answer closes it.
    pub(super) fn next(&self) -> Asked {
        loop {
            let stream = self.connections.recv_timeout(PATIENCE);
            if let Some(asked) = Asked::read(stream.expect("a call reaches the server")) {
                return asked;
            }
        }
    }

    /// The next call, if one arrives in time.
    pub(super) fn next_within(&self, time: Duration) -> Option<Asked> {
        let stream = self.connections.recv_timeout(time);
        stream.ok().and_then(Asked::read)
    }

    /// Whether no call has arrived.
    pub(super) fn is_idle(&self) -> bool {
        self.connections.try_recv().is_err()
    }
}

impl Asked {
    /// Reads a call. There is none on a connection that the gateway has made for a client that left at once.
    fn read(stream: TcpStream) -> Option<Self> {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).unwrap() == 0 {
                assert_eq!(head, "", "a call ends within its head");
                return None;
            }
        }
        head.make_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.expect(&head).parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        Some(Self {
            stream,
            head,
            body: serde_json::from_slice(&body).unwrap(),
        })
    }

    pub(super) fn answer(self, status: u16, body: &str) {
        self.answer_with(status, "content-type: application/json\r\n", body);
    }

    /// Answers with lines of header that each end in `\r\n`.
    pub(super) fn answer_with(mut self, status: u16, headers: &str, body: &str) {
        let length = body.len();
        self.send(&format!(
            "HTTP/1.1 {status} Status\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        ));
    }

    pub(super) fn begin_stream(&mut self) {
        self.send(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
             transfer-encoding: chunked\r\nconnection: close\r\n\r\n",
        );
    }

    pub(super) fn event(&mut self, data: &str) {
        self.part(&format!("data: {data}\n\n"));
    }

    /// Sends a part of the stream, which need not be a whole event.
    pub(super) fn part(&mut self, text: &str) {
        self.send(&format!("{:x}\r\n{text}\r\n", text.len()));
    }

    pub(super) fn end_stream(mut self) {
        self.send("0\r\n\r\n");
    }

    /// Waits until the gateway has closed the connection.
    pub(super) fn comes_to_be_closed(mut self) {
        let mut rest = Vec::new();
        if let Err(error) = self.stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
        }
    }

    fn send(&mut self, text: &str) {
        // The gateway may have left.
        let _ = self.stream.get_mut().write_all(text.as_bytes());
    }
}
