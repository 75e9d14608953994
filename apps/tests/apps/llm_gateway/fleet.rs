//! Several gateways on one Redis, and the parrot that comes with the gateway.

use serde_json::json;

use super::{ALICE, Gateway, call, error, stream, upstream::Upstream};
use crate::{
    programs::{Program, Response},
    redis_support::Server,
};

fn fleet(redis: &Server, changes: &[(&str, &str)]) -> [Gateway; 2] {
    let url = redis.url();
    let args = ["--redis", &*url, "--gateways", "2"];
    [(); 2].map(|()| Gateway::before(Upstream::start(), changes, &args))
}

#[test]
fn gateways_share_all_limits_of_a_key() {
    let redis = Server::start();
    let [one, other] = fleet(&redis, &[("free.calls", "{concurrent: 2}")]);
    let (client, mut streaming) = one.begin(ALICE, &stream("four", 50));
    let (second, asked) = other.begin(ALICE, &call("four", 50));
    for gateway in [&one, &other] {
        let refused = gateway.refused(ALICE, &call("", 1));
        assert_eq!(refused.status, 429);
        assert_eq!(error(&refused, "type"), "calls");
    }
    asked.answer(200, &super::answer(Some(9)));
    assert_eq!(second.response().status, 200);
    // What the one has reserved is missing at the other.
    other.comes_to_serve(ALICE);
    other.comes_to_have(ALICE, 10_000 - 51 - 9);

    // Its client leaves in the middle of the stream.
    streaming.begin_stream();
    drop(client.stream());
    streaming.comes_to_be_closed();
    other.comes_to_have(ALICE, 10_000 - 1 - 9);
    let both = [(); 2].map(|()| other.begin(ALICE, &call("", 1)));
    assert_eq!(one.refused(ALICE, &call("", 1)).status, 429);
    drop(both);
}

#[test]
fn parrot_is_behind_a_gateway_without_arguments() {
    let program = Program::start("llm_gateway", &["--listen", "127.0.0.1:0"]);
    let server = program.next_server();
    let message = json!({"role": "user", "content": "who is a good bird"});
    let mut question = json!({"model": "parrot", "messages": [message]});
    let ask = |question: &serde_json::Value| {
        let request = server.request("POST", super::CALL);
        Response::to(
            request
                .bearer_auth("sk-demo-bob")
                .body(question.to_string()),
        )
    };
    let answer = ask(&question).json();
    assert_eq!(
        answer["choices"][0]["message"]["content"],
        "who is a good bird"
    );
    assert_eq!(answer["usage"]["total_tokens"], 10);

    question["stream"] = true.into();
    question["max_tokens"] = 2.into();
    let streamed = ask(&question);
    assert_eq!(streamed.status, 200);
    assert!(
        streamed.body.contains(r#""content":"is ""#),
        "{}",
        streamed.body
    );
    assert!(
        !streamed.body.contains(r#""content":"a ""#),
        "{}",
        streamed.body
    );
    assert!(streamed.body.contains("data: [DONE]"), "{}", streamed.body);
}
