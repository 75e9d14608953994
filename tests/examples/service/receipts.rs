//! Receipts that travel: from one service to another on the same Redis, and across restarts.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::process::Service;
use crate::redis_support::{Reply, Server, wait_for};

const LIMITS: &str = "
Logins: {number: 5, limit: 5, window: 15m}
Trial: {number: 7, quota: 5, per: 24h}
Orders: {number: 6, burst: 5, count: 1, period: 1h}
Line: {number: 8, burst: 5, count: 1, period: 1h, max_wait: 1h}
";

/// All of them have five units, which do not come back within a minute.
const NAMES: [&str; 4] = ["Logins", "Trial", "Orders", "Line"];

/// For a service that does not give up on Redis while the machine is busy.
const PATIENT: [&str; 2] = ["--deadline-ms", "120000"];

fn on(redis: &Server) -> Service {
    start(LIMITS, redis, &PATIENT)
}

fn start(limits: &str, redis: &Server, more: &[&str]) -> Service {
    let url = redis.url();
    let args: Vec<_> = ["--redis", &url].iter().chain(more).copied().collect();
    Service::start_on(limits, &args)
}

/// One decision by the clock of Redis.
fn decide(service: &Service, op: &str, transaction: &Value) -> Value {
    let body = json!({"op": op, "transactions": [transaction]});
    let response = service.post(&body);
    assert_eq!(response.status, 200, "{body}: {}", response.body);
    response.body["transactions"][0].clone()
}

fn spend(service: &Service, limit: &str, id: &str, cost: u32) -> Value {
    let spent = decide(
        service,
        "spend",
        &json!({"limit": limit, "id": id, "cost": cost}),
    );
    assert_eq!(spent["allowed"], true, "{spent}");
    spent["receipt"].clone()
}

/// Whether a receipt has given something back, and how much there is after that.
fn refund(service: &Service, limit: &str, id: &str, receipt: &Value) -> (bool, u64) {
    let refund = json!({"limit": limit, "id": id, "receipt": receipt});
    let answer = decide(service, "refund", &refund);
    (
        answer["refunded"].as_bool().unwrap(),
        answer["remaining"].as_u64().unwrap(),
    )
}

/// Whether a service gets answers from Redis.
fn answers(service: &Service) -> bool {
    let probe = json!({"limit": NAMES[0], "id": "nobody", "cost": 0});
    let body = json!({"op": "check", "transactions": [probe]});
    service.post(&body).status == 200
}

fn left(service: &Service, limit: &str, id: &str) -> u64 {
    let probe = json!({"limit": limit, "id": id, "cost": 0});
    let answer = decide(service, "check", &probe);
    answer["remaining"].as_u64().unwrap()
}

#[test]
fn receipt_of_one_service_is_refunded_at_another() {
    let redis = Server::start();
    let (ours, theirs) = (on(&redis), on(&redis));
    for limit in NAMES {
        let receipt = spend(&ours, limit, "a", 3);
        assert_eq!(left(&theirs, limit, "a"), 2, "{limit}");
        assert_eq!(refund(&theirs, limit, "a", &receipt), (true, 5), "{limit}");
        assert_eq!(left(&ours, limit, "a"), 5, "{limit}");
        for service in [&ours, &theirs] {
            let again = refund(service, limit, "a", &receipt);
            assert_eq!(again, (false, 5), "{limit}: it is all there");
        }
    }
}

#[test]
fn receipts_survive_restarts_of_the_service_and_other_names_of_the_limits() {
    let redis = Server::start();
    let receipts = {
        let service = on(&redis);
        let receipts = NAMES.map(|limit| spend(&service, limit, "a", 4));
        service.program.signal("TERM");
        assert_eq!(service.program.finish().0, Some(0));
        receipts
    };
    // The bucket has the limit's number; the name is for people.
    let renamed = LIMITS.replace("Logins", "SignIns");
    let service = start(&renamed, &redis, &PATIENT);
    let names = ["SignIns", "Trial", "Orders", "Line"];
    for (limit, receipt) in names.iter().zip(&receipts) {
        assert_eq!(left(&service, limit, "a"), 1, "{limit}");
        assert_eq!(refund(&service, limit, "a", receipt), (true, 5), "{limit}");
    }
}

/// Texts that are no receipts of a bucket, made from one that is.
fn bent(receipt: &str) -> Vec<String> {
    let flipped = |place: usize| {
        let mut text = receipt.to_owned();
        let new = if &text[place..=place] == "0" {
            "1"
        } else {
            "0"
        };
        text.replace_range(place..=place, new);
        text
    };
    let middle = receipt.len() / 2;
    vec![
        String::new(),
        "0".into(),
        "garbage".into(),
        "ffffffffffffffffffffffffffffffffffffffff".into(),
        "é".repeat(20),
        "0".repeat(200),
        "0".repeat(100_000),
        receipt.to_uppercase(),
        format!(" {receipt}"),
        format!("{receipt}00"),
        receipt[..receipt.len() - 2].to_owned(),
        receipt[..middle].to_owned(),
        receipt[2..].to_owned(),
        flipped(0),
        flipped(1),
        flipped(3),
        flipped(middle),
        flipped(receipt.len() - 1),
    ]
}

/// All that is stored, by keys.
fn stored(redis: &Server) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let keys = redis.command(&["KEYS", "*"]);
    let keys = keys.array().iter().map(Reply::bytes);
    let value = |key: &[u8]| redis.command(&[b"GET", key]).bytes().to_vec();
    keys.map(|key| (key.to_vec(), value(key))).collect()
}

#[test]
fn receipts_that_are_bent_or_of_others_are_refused_and_change_nothing() {
    let redis = Server::start();
    let (ours, theirs) = (on(&redis), on(&redis));
    let receipts = NAMES.map(|limit| {
        spend(&ours, limit, "b", 2);
        (limit, spend(&ours, limit, "a", 2))
    });
    let before = stored(&redis);
    assert_eq!(before.len(), 2 * NAMES.len());
    let refused = |limit: &str, id: &str, receipt: &Value| {
        // A good one beside it is not refunded either.
        let (other, good) = receipts.iter().find(|(other, _)| *other != limit).unwrap();
        let transactions = json!([
            {"limit": other, "id": "a", "receipt": good}, {"limit": limit, "id": id, "receipt": receipt},
        ]);
        let refused = theirs.post(&json!({"op": "refund", "transactions": transactions}));
        let code = (refused.status, refused.code());
        assert_eq!(code, (400, "invalid_receipt"), "{limit}, {id}: {receipt}");
        let message = refused.body["error"]["message"].as_str().unwrap();
        let advice =
            format!("does not belong to limit `{limit}` and this id: use the limit and the id");
        assert!(message.contains(&advice), "{message}");
    };
    for (limit, receipt) in &receipts {
        let text = receipt.as_str().unwrap();
        let bent = bent(text);
        assert!(bent.iter().all(|bent| bent != text));
        for text in bent {
            refused(limit, "a", &json!(text));
        }
        refused(limit, "b", receipt);
        for other in NAMES.iter().filter(|other| *other != limit) {
            refused(other, "a", receipt);
        }
    }
    assert_eq!(stored(&redis), before);
    for (limit, receipt) in &receipts {
        let good = refund(&theirs, limit, "a", receipt);
        assert_eq!(good, (true, 5), "{limit}: it is good for its own");
        assert_eq!(left(&theirs, limit, "b"), 3, "{limit}");
    }
}

#[test]
fn receipt_of_a_local_decision_gives_nothing_back_at_another_service() {
    let redis = Server::start();
    let alone = ["--on-failure", "local"];
    let (ours, theirs) = (start(LIMITS, &redis, &alone), on(&redis));
    for limit in NAMES {
        spend(&theirs, limit, "a", 2);
    }
    redis.pause();
    let receipts = NAMES.map(|limit| spend(&ours, limit, "a", 1));
    // It is refunded where it was decided, though the store does not answer.
    assert_eq!(refund(&ours, "Orders", "a", &receipts[2]), (true, 5));
    redis.resume();
    // The other service may have lost its connection meanwhile.
    wait_for("the other service decides again", || answers(&theirs));
    for (limit, receipt) in NAMES.iter().zip(&receipts) {
        let before = left(&theirs, limit, "a");
        let there = refund(&theirs, limit, "a", receipt);
        assert!(!there.0 && there.1 <= before, "{limit}: {there:?}");
    }
}
