//! Servers are distinguished by the host of the URI: an answer only holds back requests to the same server.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tollgate::pace::PaceLayer;
use tower::{Layer, ServiceExt};

use super::{SECOND, Script, Server, request};

#[tokio::test(start_paused = true)]
async fn hosts_are_held_apart() {
    let server = Server::new(&["status: 429 | retry-after: 5", ""]);
    let layer = PaceLayer::new();
    let [one, other] = [0; 2].map(|_| layer.layer(server.service()));
    one.clone().oneshot(request("a")).await.unwrap();
    other.clone().oneshot(request("b")).await.unwrap();
    assert_eq!(server.began.elapsed(), Duration::ZERO);
    other.clone().oneshot(request("A:80")).await.unwrap();
    assert_eq!(server.began.elapsed(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn host_is_that_of_the_uri_and_requests_without_one_share_a_state() {
    const HELD: Script = "status: 429 | retry-after: 5";
    let to = |uri: &str, host: &'static str| {
        let request = Request::get(uri).header("host", host);
        request.body(Full::<Bytes>::default()).unwrap()
    };
    for (first, second, is_held) in [
        (to("http://a/", "a"), to("http://a/", "b"), true),
        (to("http://a/", "a"), to("http://b/", "a"), false),
        (to("http://a/", "a"), to("http://u:p@A.:80/x?y", "b"), true),
        (to("http://a/", "a"), to("/", "a"), false),
        (to("/x", "a"), to("/y", "b"), true),
    ] {
        let server = Server::new(&[HELD, ""]);
        let pace = PaceLayer::new().layer(server.service());
        let text = format!("{first:?} {second:?}");
        pace.clone().oneshot(first).await.unwrap();
        pace.oneshot(second).await.unwrap();
        let held = if is_held { 5 * SECOND } else { Duration::ZERO };
        assert_eq!(server.asked(), [Duration::ZERO, held], "{text}");
    }
}

/// How many servers a layer remembers.
fn remembered(pace: &PaceLayer) -> usize {
    let text = format!("{pace:?}");
    let count = text.split("Origins(").nth(1).unwrap();
    count.split(')').next().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn memory_of_servers_is_bounded_and_keeps_those_that_ask_for_a_wait() {
    let layer = PaceLayer::new();
    let [held, free] = ["status: 429 | retry-after: 9", ""].map(|script| {
        let server = Server::new(&[script]);
        (layer.layer(server.service()), server)
    });
    held.0.clone().oneshot(request("held")).await.unwrap();
    for other in 0..5000 {
        let request = request(&format!("other{other}"));
        free.0.clone().oneshot(request).await.unwrap();
        assert!(remembered(&layer) <= 1024);
    }
    assert!(remembered(&layer) > 1, "others are remembered too");
    assert_eq!(free.1.asked().last(), Some(&Duration::ZERO));
    free.0.clone().oneshot(request("held")).await.unwrap();
    assert_eq!(free.1.asked().last(), Some(&(9 * SECOND)));
    // Of servers that all ask for a wait, the first ones are remembered.
    for other in 0..2000 {
        let request = request(&format!("hostile{other}"));
        held.0.clone().oneshot(request).await.unwrap();
    }
    assert_eq!(remembered(&layer), 1024);
    free.0
        .clone()
        .oneshot(request("hostile1999"))
        .await
        .unwrap();
    assert_eq!(free.1.asked().last(), Some(&(9 * SECOND)));
    free.0.clone().oneshot(request("hostile0")).await.unwrap();
    assert_eq!(free.1.asked().last(), Some(&(18 * SECOND)));
}

#[tokio::test(start_paused = true)]
async fn names_too_long_for_any_server_share_a_state() {
    let layer = PaceLayer::new();
    let server = Server::new(&[""]);
    for length in [250, 300, 3000, 30_000] {
        let request = request(&"a".repeat(length));
        layer
            .layer(server.service())
            .oneshot(request)
            .await
            .unwrap();
    }
    assert_eq!(remembered(&layer), 2);
}
