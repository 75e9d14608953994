//! The examples that show one thing each: `hyper`, `worker`, `llm_gateway` and `custom_backend`.

use std::net::IpAddr;

use crate::programs::{Program, block_on, run};

/// What an example prints that ends by itself.
fn printed(name: &str) -> Vec<String> {
    let output = run::<&str>(name, &[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn hyper_limits_each_address() {
    let program = Program::start_anywhere("hyper");
    let server = program.next_server();
    for response in server.get_often(20, "/", &[]) {
        assert_eq!((response.status, &*response.body), (200, "hello\n"));
    }
    let is_refused = |_| {
        let responses = server.get_often(100, "/", &[]);
        responses.iter().any(|response| response.status == 429)
    };
    assert!((0..100).any(is_refused), "ten come back per second");
    let client = reqwest::Client::builder().local_address(IpAddr::from([127, 0, 0, 2]));
    let client = client.no_proxy().build().unwrap();
    let other = block_on(client.get(server.url()).send()).unwrap();
    assert_eq!(other.status(), 200);
}

#[test]
fn worker_sends_each_mail_once() {
    let mut lines = printed("worker");
    lines.sort();
    let customers = ["alice", "bob"];
    let mut expected: Vec<_> = (1..=4)
        .flat_map(|number| customers.map(|customer| format!("mail {number} of {customer} is sent")))
        .collect();
    expected.sort();
    assert_eq!(lines, expected);
}

#[test]
fn custom_backend_denies_the_fourth_upload() {
    let lines = printed("custom_backend");
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert_eq!(lines[2], "upload 3: allowed");
    assert_eq!(lines[3], "upload 4: denied");
    assert_eq!(lines[4], "4 batches decided");
}

#[test]
fn llm_gateway_charges_what_a_call_has_used() {
    let program = Program::start_anywhere("llm_gateway");
    let server = program.next_server();
    let call = |key: &str, tokens: u32| {
        let key = ("authorization", format!("Bearer {key}"));
        let body = format!(r#"{{"prompt": "who is a good bird", "max_tokens": {tokens}}}"#);
        server.send("POST", "/chat", &[key], body)
    };
    assert_eq!(call("key-of-nobody", 1).status, 401);
    // Each reserves more than half of a minute's tokens, and uses six.
    for _ in 0..20 {
        let answer = call("key-of-alice", 6000);
        assert_eq!((answer.status, &*answer.body), (200, "who is a good bird"));
    }
    assert_eq!(call("key-of-alice", 10_000).status, 413, "it never fits");
}
