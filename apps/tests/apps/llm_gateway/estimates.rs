//! The reservation of a call and the cost of an event, without a server.

use serde_json::{Value, json};

#[path = "../../../src/bin/llm_gateway"]
#[allow(dead_code, unreachable_pub, reason = "these are modules of the app")]
mod gateway {
    pub(super) mod call;
    pub(super) mod events;
    mod fields;
    mod headers;
    mod keys;
    pub(super) mod meter;
    mod plan_limits;
    mod refusal;
    mod text;
}

use gateway::{call::Asked, events::Event, meter::Meter};

/// The tokens that a call of at most one token reserves, with further fields.
fn reserved(fields: &Value) -> u32 {
    let mut body = json!({"model": "m", "max_tokens": 1});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    Asked::parse(body.to_string().as_bytes())
        .unwrap()
        .reservation(100)
}

#[test]
fn each_prompt_has_answers_and_each_id_is_a_token() {
    for (fields, tokens) in [
        (json!({"prompt": "hi"}), 2),
        (json!({"prompt": vec!["a"; 10], "max_tokens": 200}), 2010),
        (json!({"prompt": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}), 11),
        (
            json!({"prompt": [[1, 2, 3], [4, 5, 6]], "max_tokens": 200}),
            406,
        ),
        (
            json!({"prompt": "hi", "max_tokens": 200, "best_of": 20}),
            4001,
        ),
        (json!({"prompt": "hi", "n": 2, "best_of": 3}), 4),
        (json!({"input": [1, 2, 3, 4], "max_tokens": 0}), 4),
        (json!({"prompt": []}), 1),
    ] {
        assert_eq!(reserved(&fields), tokens, "{fields}");
    }
}

#[test]
fn all_text_that_the_model_reads_counts() {
    let text = "word ".repeat(800);
    let schema = |name: &str| json!({"properties": {name: {"description": text}}});
    for fields in [
        json!({"tools": [{"function": {"name": "f", "parameters": schema("id")}}]}),
        json!({"tools": [{"function": {"name": "f", "parameters": schema("type")}}]}),
        json!({"tools": [{"function": {"parameters": {"properties": {&text: {}}}}}]}),
        json!({"response_format": {"json_schema": {"description": text}}}),
        json!({"functions": [{"name": "f", "description": text}]}),
        json!({"messages": [{"role": text, "content": "ok"}]}),
        json!({"messages": [{"role": "user", "id": text}]}),
        json!({"something_new": text}),
    ] {
        let tokens = reserved(&fields);
        assert!((1000..1020).contains(&tokens), "{tokens}");
    }
    for (value, tokens) in [(json!(true), 400), (json!(false), 800), (Value::Null, 400)] {
        let schema = json!({"response_format": {"enum": vec![value; 400]}});
        assert_eq!(reserved(&schema), 1 + 1 + tokens);
    }
    let settings = json!({"user": text, "metadata": {"a": text}, "seed": 7, "temperature": 0.5});
    assert_eq!(reserved(&settings), 1);
}

/// The tokens that an event costs.
fn cost(event: &[u8]) -> u32 {
    Event::read(event).tokens()
}

#[test]
fn what_cannot_be_read_costs_its_bytes() {
    let text = "x".repeat(2000);
    let event = |rest: &str| {
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]{rest}}}\n\n")
    };
    let plain = event("");
    let wrong_utf8 = plain.replace("}\n", ",\"other\":\"_\"}\n").into_bytes();
    let wrong_utf8: Vec<_> = wrong_utf8
        .iter()
        .map(|b| if *b == b'_' { 0xff } else { *b })
        .collect();
    for event in [
        plain.clone().into_bytes(),
        event(",\"usage\":{}").into_bytes(),
        event(",\"usage\":{\"prompt_tokens\":\"many\"}").into_bytes(),
        event(",\"usage\":7").into_bytes(),
        format!("\u{feff}{plain}").into_bytes(),
        plain.replace('\n', "\r").into_bytes(),
        plain.replacen("data: ", "text: ", 1).into_bytes(),
        format!("data: {{\"choices\": \"{text}\"}}\n\n").into_bytes(),
        wrong_utf8,
    ] {
        let tokens = cost(&event);
        assert!(
            (500..520).contains(&tokens),
            "{tokens}: {}",
            event.escape_ascii()
        );
    }
    for free in [
        "data: [DONE]\n\n",
        ": ping\n\n",
        "event: x\nid: 7\n\n",
        "data: {\"choices\":[]}\n\n",
    ] {
        assert_eq!(cost(free.as_bytes()), 0, "{free}");
    }
}

/// The tokens of a call after some reports, at 10 per cent for cached ones.
fn used(meter: &Meter, usage: &Value) -> Option<u32> {
    let event = format!("data: {}\n\n", json!({"choices": [], "usage": usage}));
    meter.report(Event::read(event.as_bytes()).usage()?);
    meter.used()
}

#[test]
fn cached_tokens_have_a_price_of_their_own_and_failures_none() {
    let cached = |tokens: Value| json!({"total_tokens": 1000, "prompt_tokens_details": {"cached_tokens": tokens}});
    for (percent, usage, tokens) in [
        (100, cached(json!(801)), 1000),
        (10, cached(json!(801)), 280),
        (0, cached(json!(5000)), 0),
        (10, cached(Value::Null), 1000),
        (
            10,
            json!({"total_tokens": 1000, "prompt_tokens_details": null}),
            1000,
        ),
        (10, json!({"total_tokens": u64::MAX}), u32::MAX),
    ] {
        assert_eq!(
            used(&Meter::new(5, percent), &usage),
            Some(tokens),
            "{usage}"
        );
    }
    let failed = Meter::new(5, 100);
    failed.fail();
    failed.see(7);
    assert_eq!(used(&failed, &json!({"total_tokens": 1000})), Some(0));
}
