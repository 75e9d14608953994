//! The example service, and the form of its answers.

use std::ops::Deref;

use serde_json::{Value, json};

use crate::programs::{self, Program, Server};

/// The first instant of 2026.
pub(crate) const T0: u64 = 1_767_225_600_000_000;

pub(crate) const DEFAULTS: &str = "
Orders: {number: 6, burst: 20, count: 20, period: 1s}
Slow: {burst: 5, count: 5, period: 60m}
Sevenths: {burst: 7, count: 7, period: 1s}
Off: {number: 9}
Bare: {}
";

/// A running service, killed when dropped.
pub(crate) struct Service {
    pub(crate) program: Program,
    server: Server,
}

impl Service {
    /// Starts the service with [`DEFAULTS`], on a free port, by the callers' clock.
    pub(crate) fn start() -> Self {
        Self::start_with(&["--manual-clock"])
    }

    pub(crate) fn start_with(args: &[&str]) -> Self {
        Self::start_on(DEFAULTS, args)
    }

    /// Starts the service with other defaults.
    pub(crate) fn start_on(defaults: &str, args: &[&str]) -> Self {
        let defaults = file(defaults);
        let first = ["--listen", "127.0.0.1:0", "--defaults", &defaults];
        let program = Program::start("service", &[&first[..], args].concat());
        let server = program.next_server();
        Self { program, server }
    }

    /// Sends one request, by its method and path.
    pub(crate) fn send(&self, request: &str, body: impl Into<Vec<u8>>) -> Response {
        let (method, path) = request.split_once(' ').expect("a method and a path");
        let request = self.server.request(method, path);
        programs::Response::to(request.body(body.into())).into()
    }

    /// Sends a body to `/v1/decide`.
    pub(crate) fn post(&self, body: &Value) -> Response {
        self.send("POST /v1/decide", body.to_string())
    }

    /// Asks for a decision and expects one.
    pub(crate) fn decide(&self, op: &str, now: u64, transactions: &Value) -> Value {
        let body = json!({"op": op, "now_us": now, "transactions": transactions});
        let response = self.post(&body);
        assert_eq!(response.status, 200, "{body}: {}", response.body);
        response.body
    }
}

impl Deref for Service {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// The answer without the receipts that a spend has and a check has not.
pub(crate) fn without_receipts(mut answer: Value) -> Value {
    let members = answer["transactions"].as_array_mut().expect("members");
    for member in members {
        let member = member.as_object_mut().expect("a member");
        assert!(member.remove("receipt").is_some(), "{member:?}");
    }
    answer
}

/// A response in JSON.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: programs::Response,
    pub(crate) body: Value,
}

impl From<programs::Response> for Response {
    fn from(head: programs::Response) -> Self {
        let (status, body) = (head.status, head.json());
        Self { status, head, body }
    }
}

impl Response {
    /// The code of an error, whose form is checked.
    pub(crate) fn code(&self) -> &str {
        let error = &self.body["error"];
        let message = error["message"].as_str().expect("a message");
        assert!(message.len() > 10, "{message}");
        let code = error["code"].as_str().expect("a code");
        let exact = json!({"error": {"code": code, "message": message}});
        assert_eq!(self.body, exact);
        code
    }
}

pub(crate) fn file(text: &str) -> String {
    programs::file("service.yml", text)
}
