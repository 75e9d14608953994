//! The app `llm_gateway`, over HTTP: what each call costs, however it ends, and the answers to clients.

mod admission;
mod endings;
mod estimates;
mod files;
mod fleet;
mod limits;
mod streams;
mod upstream;

use std::time::Duration;

use serde_json::{Value, json};

use self::upstream::{Asked, Upstream};
use crate::{
    eventually::eventually,
    programs::{Pending, Program, Response, Server, file},
};

const CALL: &str = "/v1/chat/completions";

/// Limits that no test reaches unless it changes them. A token comes back in ten hours, so the figures do not change during a test.
const LIMITS: [(&str, &str); 9] = [
    ("free.requests", "{burst: 1000, count: 1, period: 10h}"),
    ("free.tokens", "{burst: 10000, count: 1, period: 10h}"),
    ("free.calls", "{concurrent: 100}"),
    ("free.month", "{quota: 1000000, per: 1000h}"),
    ("pro.requests", "{burst: 2000, count: 1, period: 10h}"),
    ("pro.requests.large", "{burst: 50, count: 1, period: 10h}"),
    ("pro.tokens", "{burst: 20000, count: 1, period: 10h}"),
    ("pro.calls", "{concurrent: 200}"),
    ("pro.month", "{quota: 5000000, per: 1000h}"),
];

/// With the hashes of `key-of-alice` and `key-of-bob`.
const KEYS: &str = "
models:
  - {name: small-model, max_tokens: 100}
  - {name: large-model, class: large, max_tokens: 300}
keys:
  - {id: alice, plan: free, sha256: d16a80956c32f3f5fb979bea408abac8c3eef6c54ecb234279e337146cf87b47}
  - {id: bob, plan: pro, sha256: 808a1d81b5de08d72083995df738947d519d230a20c236003268f0f4b65ee475}
";

const ALICE: &str = "key-of-alice";
const BOB: &str = "key-of-bob";

/// A gateway, the server behind it, and its files.
struct Gateway {
    _program: Program,
    server: Server,
    upstream: Upstream,
    keys: String,
}

impl Gateway {
    fn start(changes: &[(&str, &str)]) -> Self {
        let upstream = Upstream::start();
        Self::before(upstream, changes, &[])
    }

    /// Starts one before a server, with further arguments.
    fn before(upstream: Upstream, changes: &[(&str, &str)], args: &[&str]) -> Self {
        let limits = file("limits.yml", &limits(changes));
        let keys = file("keys.yml", KEYS);
        let url = upstream.url();
        let args = arguments(&url, &limits, &keys, args);
        let program = Program::start("llm_gateway", &args);
        let server = program.next_server();
        Self {
            _program: program,
            server,
            upstream,
            keys,
        }
    }

    /// Sends a call, whose answer is not read yet.
    fn send(&self, key: &str, body: &Value) -> Pending {
        let request = self.server.request("POST", CALL).bearer_auth(key);
        Pending::new(request.body(body.to_string()))
    }

    /// Sends a call that reaches the server.
    fn begin(&self, key: &str, body: &Value) -> (Pending, Asked) {
        let pending = self.send(key, body);
        (pending, self.upstream.next())
    }

    /// Sends a call whose answer reports this number of tokens, if it reaches the server.
    fn call(&self, key: &str, body: &Value, tokens: u32) -> Response {
        let pending = self.send(key, body);
        while !pending.is_answered() {
            if let Some(asked) = self.upstream.next_within(Duration::from_millis(5)) {
                asked.answer(200, &answer(Some(tokens)));
            }
        }
        pending.response()
    }

    /// A call that does not reach the server.
    fn refused(&self, key: &str, body: &Value) -> Response {
        let response = self.send(key, body).response();
        assert!(self.upstream.is_idle());
        response
    }

    /// The tokens that a key has left, by a call that reserves one and uses none.
    fn left(&self, key: &str) -> u32 {
        let response = self.call(key, &call("", 1), 0);
        let left = number(&response, "x-ratelimit-remaining-tokens");
        left + u32::from(response.status == 200)
    }

    /// Waits until a key has this number of tokens left. They are settled when the answer has ended.
    #[track_caller]
    fn comes_to_have(&self, key: &str, tokens: u32) {
        let what = format!("{key} has {tokens}");
        eventually(&what, || self.left(key) == tokens);
    }

    /// Waits until a call of a key that costs nothing is served.
    #[track_caller]
    fn comes_to_serve(&self, key: &str) {
        let what = format!("{key} is served");
        eventually(&what, || self.call(key, &call("", 1), 0).status == 200);
    }
}

fn arguments<'a>(
    upstream: &'a str,
    limits: &'a str,
    keys: &'a str,
    more: &[&'a str],
) -> Vec<&'a str> {
    let mut args = vec!["--listen", "127.0.0.1:0", "--upstream", upstream];
    args.extend(["--limits", limits, "--keys", keys]);
    args.extend(more);
    args
}

/// The file of limits, with changes. A value of nothing leaves a limit out.
fn limits(changes: &[(&str, &str)]) -> String {
    let changed = |name: &str| changes.iter().find(|(other, _)| *other == name);
    let kept = LIMITS.iter().filter(|(name, _)| changed(name).is_none());
    let all = kept.chain(changes).filter(|(_, value)| !value.is_empty());
    all.map(|(name, value)| format!("{name}: {value}\n"))
        .collect()
}

/// A call of the small model.
fn call(prompt: &str, max_tokens: u32) -> Value {
    let message = json!({"role": "user", "content": prompt});
    json!({"model": "small-model", "max_tokens": max_tokens, "messages": [message]})
}

/// The same as a stream.
fn stream(prompt: &str, max_tokens: u32) -> Value {
    let mut call = call(prompt, max_tokens);
    call["stream"] = true.into();
    call
}

/// An answer, with its usage if it reports one.
fn answer(tokens: Option<u32>) -> String {
    let choice = json!({"index": 0, "message": {"role": "assistant", "content": "hello"}});
    let mut answer = json!({"object": "chat.completion", "choices": [choice]});
    if let Some(tokens) = tokens {
        answer["usage"] = usage(tokens);
    }
    answer.to_string()
}

fn usage(tokens: u32) -> Value {
    json!({"prompt_tokens": 0, "completion_tokens": tokens, "total_tokens": tokens})
}

#[track_caller]
fn number(response: &Response, field: &str) -> u32 {
    let value = response.header(field);
    value
        .unwrap_or_else(|| panic!("{field}: {response:?}"))
        .parse()
        .unwrap()
}

/// A member of the error in a response, in the protocol's form.
#[track_caller]
fn error(response: &Response, member: &str) -> String {
    assert_eq!(response.header("content-type"), Some("application/json"));
    let document = response.json();
    for member in ["message", "type", "param", "code"] {
        assert!(document["error"].get(member).is_some(), "{document}");
    }
    match &document["error"][member] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
