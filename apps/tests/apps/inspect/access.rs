//! Access with the token only.

use http::{Method, StatusCode};
use serde_json::json;
use tollgate::Transaction;

use super::{
    server::{Admin, TOKEN},
    token::Token,
};

const PATHS: [(Method, &str); 9] = [
    (Method::GET, "/limits"),
    (Method::GET, "/buckets/any/x"),
    (Method::DELETE, "/buckets/any/x"),
    (Method::GET, "/buckets/unknown/x"),
    (Method::GET, "/blocks"),
    (Method::PUT, "/blocks/unpaid/7?for=1h"),
    (Method::DELETE, "/blocks/unpaid/7"),
    (Method::GET, "/elsewhere"),
    (Method::POST, "/limits"),
];

#[tokio::test]
async fn all_routes_need_the_token() {
    let admin = Admin::start().await;
    let spend = Transaction::new("any", "x").cost(20);
    admin.limiter.spend(&spend).await.unwrap();
    let right = format!("Bearer {TOKEN}");
    let wrong = [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        TOKEN.to_owned(),
        format!("Basic {TOKEN}"),
        format!("Bearer {}", &TOKEN[1..]),
        format!("Bearer {}", &TOKEN[..TOKEN.len() - 1]),
        format!("Bearer {TOKEN}s"),
        format!("Bearer  {TOKEN}"),
        format!("Bearer {}", TOKEN.to_uppercase()),
    ];
    for (method, path) in PATHS {
        let none = admin.send(method.clone(), path, &[]).await;
        assert_eq!(none.0, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(none.1["error"]["code"], "unauthorized");
        for wrong in &wrong {
            let authorization = [wrong.as_bytes()];
            let answer = admin.send(method.clone(), path, &authorization).await;
            assert_eq!(answer, none, "{path}: {wrong}");
        }
        let twice: [&[u8]; 2] = [right.as_bytes(), b"Bearer x"];
        assert_eq!(admin.send(method.clone(), path, &twice).await, none);
        let binary: &[u8] = b"Bearer \xff\xfe";
        assert_eq!(admin.send(method, path, &[binary]).await, none);
    }
    // Nothing was reset.
    let (_, state) = admin.get("/buckets/any/x").await;
    assert_eq!(state["remaining"], json!(0));
}

#[test]
fn secrets_are_long_and_can_be_sent() {
    for good in [TOKEN, "0123456789abcdef", &"x".repeat(1000)] {
        assert!(Token::new(good).is_ok(), "{good}");
    }
    for (bad, reason) in [
        ("", "less than 16 characters"),
        ("0123456789abcde", "less than 16 characters"),
        ("0123456789 abcdef", "characters that no header takes"),
        ("0123456789abcdef\n", "characters that no header takes"),
        ("0123456789abcdeä", "characters that no header takes"),
    ] {
        let error = Token::new(bad).unwrap_err().to_string();
        assert!(error.contains(reason), "{bad}: {error}");
    }
    let shown = format!("{:?}", Token::new(TOKEN).unwrap());
    assert_eq!(shown, "Token");
}
