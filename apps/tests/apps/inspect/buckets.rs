//! Administrators see and change buckets.

use http::StatusCode;
use serde_json::{Value, json};
use tollgate::{Limiter, MemoryBackend, Transaction, transaction::Mode};

use super::server::{Admin, limits};

#[tokio::test]
async fn limits_in_force_are_shown_as_files_have_them() {
    let admin = Admin::start().await;
    let (status, shown) = admin.get("/limits").await;
    assert_eq!(status, StatusCode::OK);
    let any = json!({"burst": 20, "count": 10, "period": "1s", "id": "opaque", "shadow": false});
    assert_eq!(shown["defaults"]["any"], any);
    let vip = json!({"any": {"unlimited": true, "ids": [{"id": "vip"}]}});
    assert!(
        shown["overrides"].as_array().unwrap().contains(&vip),
        "{shown}"
    );
    // Those of now, not of the start.
    let other = tollgate::Limits::builder().build().unwrap();
    admin.limiter.reload(other).unwrap();
    let shown = json!({"defaults": {}, "overrides": []});
    assert_eq!(admin.get("/limits").await, (StatusCode::OK, shown));
}

#[tokio::test]
async fn many_overrides_are_all_shown() {
    const MANY: usize = 50_000;
    let mut limits = limits();
    for id in 0..MANY {
        let limit = tollgate::Limit::per_hour(1 + u32::try_from(id % 2).unwrap());
        limits = limits.override_for("accounts", &(100 + id).to_string(), limit);
    }
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let (status, shown) = Admin::of(limiter).await.get("/limits").await;
    assert_eq!(status, StatusCode::OK);
    // One item for each, since neighbours differ.
    let shown = shown["overrides"].as_array().unwrap();
    let of_accounts = shown.iter().filter(|item| item.get("accounts").is_some());
    assert_eq!(of_accounts.count(), MANY + 1);
}

#[tokio::test]
async fn bucket_is_shown_and_not_charged() {
    let admin = Admin::start().await;
    let three = Transaction::new("any", "x").cost(3);
    admin.limiter.spend(&three).await.unwrap();
    let state = json!({
        "limit": "any", "id": "x", "key": "any:x",
        "values": {"burst": 20, "count": 10, "period": "1s"},
        "summary": "10 per 1s, 20 at once",
        "bound": {"most": 29, "within": "1s"},
        "override": null,
        "shadow": false,
        "passes": true,
        "limited": true,
        "source": "store",
        "remaining": 17,
        "next_after_us": 0,
        "next_token_after_us": 100_000,
        "reset_after_us": 300_000,
    });
    for _ in 0..3 {
        assert_eq!(
            admin.get("/buckets/any/x").await,
            (StatusCode::OK, state.clone())
        );
    }
}

#[tokio::test]
async fn reset_reports_its_effect() {
    let admin = Admin::start().await;
    for (bucket, key, reason) in [
        (
            "any/banned",
            "any:banned",
            "the client is blocked by an override: remove that",
        ),
        ("any/vip", "any:vip", "the client is not limited"),
        ("any/fresh", "any:fresh", "the bucket is full"),
    ] {
        let (status, answer) = admin.delete(&format!("/buckets/{bucket}")).await;
        assert_eq!(status, StatusCode::OK, "{bucket}");
        assert_eq!(
            answer,
            json!({"reset": false, "key": key, "reason": reason})
        );
    }
}

#[tokio::test]
async fn client_is_reset_whatever_the_limit() {
    let admin = Admin::start().await;
    for (limit, id) in [("any", "7"), ("accounts", "7"), ("any", "8")] {
        let spend = Transaction::new(limit, id);
        admin.limiter.spend(&spend).await.unwrap();
    }
    let (status, mut answer) = admin.delete("/clients/7").await;
    assert_eq!(status, StatusCode::OK);
    let reset = answer["reset"].as_array_mut().unwrap();
    reset.sort_by_key(Value::to_string);
    assert_eq!(*reset, [json!("accounts"), json!("any")]);
    for (bucket, full) in [("any/7", true), ("accounts/7", true), ("any/8", false)] {
        let (_, state) = admin.get(&format!("/buckets/{bucket}")).await;
        assert_eq!(state["reset_after_us"] == 0, full, "{bucket}");
    }
    assert_eq!(admin.delete("/clients/7").await.1, json!({"reset": []}));
}

#[tokio::test]
async fn clients_without_a_bucket_are_shown_too() {
    let admin = Admin::start().await;
    let figures = |state: &Value| {
        ["values", "passes", "limited", "remaining", "next_after_us"]
            .map(|figure| state[figure].clone())
    };
    let none = json!(null);
    let (_, state) = admin.get("/buckets/any/vip").await;
    let unlimited = json!({"unlimited": true});
    let expected = [
        unlimited,
        json!(true),
        json!(false),
        none.clone(),
        none.clone(),
    ];
    assert_eq!(figures(&state), expected);
    assert_eq!(state["override"], json!({"id": "vip", "comment": null}));

    let (_, state) = admin.get("/buckets/any/banned").await;
    let blocked = json!({"blocked": true});
    let expected = [blocked, json!(false), json!(true), json!(0), none.clone()];
    assert_eq!(figures(&state), expected);

    let (_, state) = admin.get("/buckets/accounts/8").await;
    let expected = [none.clone(), json!(true), json!(false), none.clone(), none];
    assert_eq!(figures(&state), expected);
}

#[tokio::test]
async fn shadow_mode_does_not_hide_what_would_be_denied() {
    let admin = Admin::start().await;
    let debit = Transaction::new("ranges", "2001:db8::1").cost(101);
    admin.limiter.spend(&debit.mode(Mode::Debit)).await.unwrap();
    let (_, state) = admin.get("/buckets/ranges/2001:db8::/48").await;
    let figures = ["shadow", "passes"].map(|figure| &state[figure]);
    assert_eq!(figures, [&json!(true), &json!(false)]);
}

/// Ids as they are written in a path, each with the limit and the bucket.
const SPELLINGS: [(&str, &str, &str); 14] = [
    ("any", "x", "any:x"),
    ("any", "a/b//c/", "any:a/b//c/"),
    ("any", "/a", "any:/a"),
    ("any", "a%2Fb", "any:a/b"),
    ("any", "a:b", "any:a:b"),
    ("any", "100%25", "any:100%"),
    ("any", "a%3Fb%23c", "any:a?b#c"),
    ("any", "%C3%A4%20%F0%9F%98%80", "any:ä 😀"),
    ("any", "%2e%2e/..", "any:../.."),
    ("ranges", "2001:db8::/48", "2:2001:db8::/48"),
    ("ranges", "2001%3Adb8%3A%3A%2F48", "2:2001:db8::/48"),
    ("ranges", "2001:0DB8:0::7", "2:2001:db8::/48"),
    ("domains", "www.Example.com", "5:example.com"),
    ("accounts", "7", "6:7"),
];

#[tokio::test]
async fn any_id_is_found_and_reset() {
    for (limit, id, key) in SPELLINGS {
        let admin = Admin::start().await;
        let path = format!("/buckets/{limit}/{id}");
        let (status, before) = admin.get(&path).await;
        assert_eq!(
            (status, &before["key"]),
            (StatusCode::OK, &json!(key)),
            "{path}"
        );
        let (_, folded) = key.split_once(':').unwrap();
        let spend = Transaction::new(limit, folded);
        admin.limiter.spend(&spend).await.unwrap();
        let (_, spent) = admin.get(&path).await;
        let remaining = |state: &Value| state["remaining"].as_u64().unwrap();
        assert_eq!(remaining(&spent) + 1, remaining(&before), "{path}");
        let done = (StatusCode::OK, json!({"reset": true, "key": key}));
        assert_eq!(admin.delete(&path).await, done);
        assert_eq!(admin.get(&path).await.1, before, "{path}");
    }
}
