//! Budgets of tokens: charged is what was generated, however the answer ends.

use super::clients::{at_once, comes_to_be, count, remaining, start};
use crate::programs::{Connection, Response, Server};

const CHAT: &str = "POST /chat";

fn chat(server: &Server, account: &str, max: &str, prompt: &str) -> Response {
    let headers = format!("x-account-id: {account}\r\nx-max-tokens: {max}\r\n");
    server.request(CHAT, headers.as_bytes(), prompt.as_bytes())
}

fn budget(server: &Server, account: &str) -> u32 {
    let response = server.get("/budget", &format!("x-account-id: {account}\r\n"));
    assert_eq!(response.status, 200);
    response.body.trim().parse().unwrap()
}

/// A chat whose prompt is sent by and by.
fn begin(server: &Server, account: &str, max: u32) -> Connection {
    let mut connection = server.connect();
    connection.send(format!(
        "{CHAT} HTTP/1.1\r\nhost: test\r\nx-account-id: {account}\r\nx-max-tokens: {max}\r\n\
         transfer-encoding: chunked\r\n\r\n"
    ));
    connection
}

#[test]
fn what_was_generated_is_charged() {
    let (_program, server) = start("token_budget");
    let mut left = 1000;
    for (prompt, max, answer, tokens) in [
        ("who is a good bird", "50", "who is a good bird", 5),
        ("who is a good bird", "2", "who is ", 2),
        ("hello", "993", "hello", 1),
        ("", "50", "", 0),
        ("nothing may be said", "0", "", 0),
    ] {
        let response = chat(&server, "alice", max, prompt);
        assert_eq!((response.status, &*response.body), (200, answer));
        left -= tokens;
        comes_to_be(left, || budget(&server, "alice"));
    }
    assert_eq!(budget(&server, "bob"), 1000);
}

#[test]
fn looking_at_the_budget_costs_nothing_and_is_not_refused() {
    let (_program, server) = start("token_budget");
    for _ in 0..50 {
        assert_eq!(budget(&server, "alice"), 1000);
    }
    let mut chat_on = begin(&server, "alice", 1000);
    assert_eq!(chat_on.head().status, 200);
    let look = server.get("/budget", "x-account-id: alice\r\n");
    assert_eq!((look.status, remaining(&look)), (200, 0));
    // Nothing is said for nothing.
    for max in ["0", "1"] {
        assert_eq!(chat(&server, "alice", max, "a").status, 429);
    }
}

#[test]
fn answer_is_charged_as_far_as_it_came_when_the_client_goes_away() {
    let (_program, server) = start("token_budget");
    let mut connection = begin(&server, "alice", 400);
    assert_eq!(connection.head().status, 200);
    for word in ["three ", "words ", "come "] {
        connection.send_chunk(word);
        assert_eq!(connection.chunk().as_deref(), Some(word));
    }
    assert_eq!(budget(&server, "alice"), 600);
    drop(connection);
    comes_to_be(997, || budget(&server, "alice"));
    // And one that goes away before it has heard anything.
    let connection = begin(&server, "alice", 400);
    comes_to_be(597, || budget(&server, "alice"));
    drop(connection);
    comes_to_be(997, || budget(&server, "alice"));
}

#[test]
fn broken_prompt_is_charged_as_far_as_it_was_answered() {
    let (_program, server) = start("token_budget");
    let mut connection = begin(&server, "alice", 400);
    connection.send_chunk("two words ");
    assert_eq!(connection.head().status, 200);
    assert_eq!(connection.chunk().as_deref(), Some("two "));
    assert_eq!(connection.chunk().as_deref(), Some("words "));
    connection.send("not a size\r\n");
    comes_to_be(998, || budget(&server, "alice"));
}

#[test]
fn chats_at_once_reserve_no_more_than_the_budget() {
    let (_program, server) = start("token_budget");
    let mut begun = at_once(25, |_| {
        let mut connection = begin(&server, "alice", 100);
        let head = connection.head();
        (connection, head)
    });
    let heads: Vec<_> = begun.iter().map(|(_, head)| head.status).collect();
    let passed = heads.iter().filter(|status| **status == 200).count();
    assert_eq!(passed, 10, "{heads:?}");
    assert_eq!(budget(&server, "alice"), 0);
    begun.retain(|(_, head)| head.status == 200);
    for (connection, _) in &mut begun {
        connection.send_chunk("I have said ");
        connection.send_chunk("");
        while connection.chunk().is_some() {}
    }
    comes_to_be(1000 - 10 * 3, || budget(&server, "alice"));
}

#[test]
fn answers_at_once_are_counted_exactly() {
    let (_program, server) = start("token_budget");
    let answers = at_once(20, |i| {
        let prompt = "word ".repeat(i % 4 + 1);
        chat(&server, "alice", "50", &prompt)
    });
    assert_eq!(count(&answers, 200), 20);
    comes_to_be(1000 - 5 * (1 + 2 + 3 + 4), || budget(&server, "alice"));
}

#[test]
fn huge_reservation_is_refused() {
    let (_program, server) = start("token_budget");
    for max in ["1001", "4294967296", "18446744073709551615"] {
        let refused = chat(&server, "alice", max, "a").status;
        assert_eq!(refused, 413, "{max}");
    }
    assert_eq!(budget(&server, "alice"), 1000);
}

#[test]
fn garbage_is_refused_and_costs_nothing() {
    let (_program, server) = start("token_budget");
    for max in ["", "x", "-1", "1.5", "1e3", "18446744073709551616"] {
        assert_eq!(chat(&server, "alice", max, "a").status, 400, "{max}");
    }
    for headers in [
        &b""[..],
        b"x-account-id:\r\n",
        b"x-account-id: \xff\r\n",
        b"x-account-id: alice\r\nx-account-id: bob\r\n",
    ] {
        for line in [CHAT, "GET /budget"] {
            let refused = server.request(line, headers, b"");
            assert_eq!(refused.status, 400, "{}", headers.escape_ascii());
        }
    }
    comes_to_be(1000, || budget(&server, "alice"));
}

#[test]
fn prompt_without_end_is_heard_as_far_as_it_may() {
    let (_program, server) = start("token_budget");
    let response = chat(&server, "alice", "50", &"x".repeat(100_000));
    assert_eq!(response.body.len(), 64 * 1024);
    comes_to_be(999, || budget(&server, "alice"));
}
