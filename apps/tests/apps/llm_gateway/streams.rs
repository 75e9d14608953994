//! Streams: each event passes at once, and is counted on its way.

use serde_json::{Value, json};

use super::{ALICE, Gateway, call, stream, upstream::Asked, usage};
use crate::programs::Stream;

/// An event with a piece of text.
fn said(text: &str) -> String {
    let choice = json!({"index": 0, "delta": {"content": text}});
    json!({"choices": [choice], "usage": null}).to_string()
}

fn reported(tokens: u32) -> String {
    json!({"choices": [], "usage": usage(tokens)}).to_string()
}

/// A stream whose head has arrived. Its call reserves 51 tokens, one of them for its prompt.
fn begin(gateway: &Gateway, call: &Value) -> (Stream, Asked) {
    let (pending, mut asked) = gateway.begin(ALICE, call);
    asked.begin_stream();
    let stream = pending.stream();
    assert_eq!(stream.0.status(), 200);
    let media = &stream.0.headers()["content-type"];
    assert_eq!(media, "text/event-stream; charset=utf-8");
    (stream, asked)
}

/// Sends an event from the server, which the client must get before the next one is sent.
#[track_caller]
fn pass(stream: &mut Stream, asked: &mut Asked, event: &str) {
    asked.event(event);
    let sent = format!("data: {event}\n\n");
    assert_eq!(stream.read(sent.len()), sent);
}

#[test]
fn stream_costs_what_its_last_event_reports() {
    let gateway = Gateway::start(&[]);
    let (mut client, mut asked) = begin(&gateway, &stream("four", 50));
    // The gateway has asked for that event, and the client has not.
    assert_eq!(asked.body["stream_options"], json!({"include_usage": true}));
    pass(&mut client, &mut asked, &said("good"));
    pass(&mut client, &mut asked, &said(" bird"));
    asked.event(&reported(9));
    pass(&mut client, &mut asked, "[DONE]");
    asked.end_stream();
    assert_eq!(client.read(1), "", "it ends");
    gateway.comes_to_have(ALICE, 10_000 - 9);
}

#[test]
fn client_that_disconnects_in_a_stream_is_charged_for_the_tokens_it_got() {
    let gateway = Gateway::start(&[("free.calls", "{concurrent: 1}")]);
    let (mut client, mut asked) = begin(&gateway, &stream("four", 50));
    for word in ["one", "two", "a longer word"] {
        pass(&mut client, &mut asked, &said(word));
    }
    let refused = gateway.refused(ALICE, &call("", 1));
    assert_eq!(refused.status, 429);
    drop(client);
    // The gateway leaves the server as well. Until it notices, the permit is taken.
    asked.comes_to_be_closed();
    gateway.comes_to_serve(ALICE);
    // One token for the prompt, one for each short word, and four for 13 bytes.
    gateway.comes_to_have(ALICE, 10_000 - 1 - 1 - 1 - 4);
}

#[test]
fn events_are_put_together_from_parts() {
    let gateway = Gateway::start(&[]);
    let (mut client, mut asked) = begin(&gateway, &stream("four", 50));
    for part in [
        ": a comment\r\n\r",
        "\nevent: x\nda",
        "ta: {\"choices\"",
        ": []}\n\n",
    ] {
        asked.part(part);
    }
    let sent = ": a comment\r\n\r\nevent: x\ndata: {\"choices\": []}\n\n";
    assert_eq!(client.read(sent.len()), sent);
    // The last event lacks its empty line.
    asked.part(&format!("data: {}", reported(5)));
    asked.end_stream();
    assert_eq!(client.read(1), "", "it ends");
    gateway.comes_to_have(ALICE, 10_000 - 5);
}
