include!("pages/api_keys.rs");

fn with_keys(ip: &str, keys: &[&str]) -> Request {
    let keys = keys.iter();
    let request = keys.fold(super::from_ip(ip), |request, key| {
        request.header("x-api-key", *key)
    });
    request.body(axum::body::Body::empty()).unwrap()
}

#[tokio::test]
async fn clients_with_a_key_share_the_account_and_others_the_address() {
    let (limiter, clock) = super::limiter(limits());
    let app = app(limiter);
    // The second key of an account has the same bucket, from whichever address.
    for (i, key) in ["key-of-alice", "second-key-of-alice"].iter().enumerate() {
        let ip = format!("203.0.113.{i}");
        for _ in 0..6 {
            let request = || with_keys(&ip, &[key]);
            assert_eq!(super::count(&app, 50, request, [200]).await, [50]);
            clock.advance(std::time::Duration::from_secs(1));
        }
    }
    // Twelve seconds have brought 120 back.
    let alice = || with_keys("203.0.113.9", &["key-of-alice"]);
    assert_eq!(super::count(&app, 50, alice, [200]).await, [50]);
    clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(super::count(&app, 50, alice, [200]).await, [50]);
    clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(super::count(&app, 50, alice, [200, 429]).await, [40, 10]);

    let bob = || with_keys("203.0.113.10", &["key-of-bob"]);
    assert_eq!(super::count(&app, 50, bob, [200]).await, [50]);
    let anonymous = || with_keys("203.0.113.11", &[]);
    assert_eq!(super::count(&app, 50, anonymous, [200]).await, [50]);
    clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(super::count(&app, 12, anonymous, [200, 429]).await, [11, 1]);
}

#[tokio::test]
async fn unknown_and_duplicate_keys_are_limited_by_address_and_never_anonymous() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter);
    let guess = || with_keys("203.0.113.7", &["guess"]);
    assert_eq!(super::count(&app, 30, guess, [401]).await, [30]);
    let two = || with_keys("203.0.113.7", &["key-of-alice", "key-of-bob"]);
    assert_eq!(super::count(&app, 25, two, [400, 429]).await, [20, 5]);
    // Neither has been charged to the address as an anonymous client, nor to an account.
    let alice = || with_keys("203.0.113.8", &["key-of-alice"]);
    assert_eq!(super::count(&app, 50, alice, [200]).await, [50]);
}
