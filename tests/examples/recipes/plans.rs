//! Plans: each account has its own plan's limit, and some have none.

use super::{at_once, count, remaining, start};
use crate::programs::{Response, Server};

fn get(server: &Server, key: &str) -> Response {
    server.get("/", &[("x-api-key", key)])
}

#[test]
fn fields_are_those_of_the_plan() {
    let (_program, server) = start("plans");
    for (key, plan, policy, left) in [
        ("key-of-alice", "Free", r#""free";q=10;w="#, 9),
        ("key-of-bob", "Pro", r#""pro";q=100;w="#, 99),
        ("key-of-initech", "Pro", r#""pro";q=250;w="#, 249),
    ] {
        let response = get(&server, key);
        assert_eq!(response.status, 200);
        assert!(response.body.contains(plan), "{}", response.body);
        let field = response.header("ratelimit-policy").unwrap();
        let month: u32 = field.strip_prefix(policy).expect(field).parse().unwrap();
        assert_eq!(month % 86_400, 0, "{field}");
        assert!((28..=31).contains(&(month / 86_400)), "{field}");
        assert_eq!(remaining(&response), left);
    }
}

#[test]
fn requests_at_once_get_exactly_what_the_plan_has() {
    let (_program, server) = start("plans");
    let free = at_once(30, |_| get(&server, "key-of-alice"));
    assert_eq!((count(&free, 200), count(&free, 429)), (10, 20));
    // Two keys of one account share its bucket.
    let keys = ["key-of-bob", "other-key-of-bob"];
    let pro = at_once(120, |i| get(&server, keys[i % 2]));
    assert_eq!((count(&pro, 200), count(&pro, 429)), (100, 20));
    let denied = get(&server, "key-of-bob");
    assert!(denied.header("retry-after").is_some());
}

#[test]
fn unknown_key_is_refused_before_anything_is_charged() {
    let (_program, server) = start("plans");
    let keys: [&[&[u8]]; 7] = [
        &[],
        &[b""],
        &[b"key-of-nobody"],
        &[b"key-of-alic"],
        &[b"KEY-OF-ALICE"],
        &[b"\xff\xfe"],
        &[b"free", b"key-of-alice"],
    ];
    for keys in keys {
        let headers: Vec<_> = keys.iter().map(|key| ("x-api-key", key)).collect();
        let refused = server.send("GET", "/", &headers, "");
        assert_eq!(refused.status, 401, "{keys:?}");
        assert_eq!(refused.header("ratelimit"), None);
    }
    assert_eq!(remaining(&get(&server, "key-of-alice")), 9);
}
