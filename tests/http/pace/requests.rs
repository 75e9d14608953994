//! Requests that are sent again, that leave, and that go to several servers.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use tollgate::pace::PaceLayer;
use tower::{Layer, ServiceExt, service_fn};

use super::{SECOND, Script, Server, request, response};
use crate::support::patience::poll;

#[tokio::test(start_paused = true)]
async fn refused_request_is_sent_again_when_there_is_room() {
    const REFUSED: Script = "status: 429 | retry-after: 2";
    for (times, answers, status, asked) in [
        (0, 1, StatusCode::TOO_MANY_REQUESTS, &[0][..]),
        (2, 1, StatusCode::OK, &[0, 2]),
        (2, 2, StatusCode::OK, &[0, 2, 4]),
        (2, 3, StatusCode::TOO_MANY_REQUESTS, &[0, 2, 4]),
    ] {
        let mut scripts = vec![REFUSED; answers];
        scripts.push("");
        let server = Server::new(&scripts);
        let pace = PaceLayer::new().retry(times).layer(server.service());
        let answer = pace.oneshot(request("a")).await.unwrap();
        assert_eq!(answer.status(), status);
        let asked: Vec<_> = asked.iter().map(|secs| SECOND * *secs).collect();
        assert_eq!(server.asked(), asked);
    }
    // Not for longer than the maximum, and not where it is in vain.
    let finals: [Script; 2] = [
        "status: 429 | retry-after: 11",
        "grpc-status: 8 | grpc-retry-pushback-ms: -1",
    ];
    for script in finals {
        let server = Server::new(&[script]);
        let pace = PaceLayer::new().max_wait(10 * SECOND).retry(5);
        let answer = pace.layer(server.service()).oneshot(request("a")).await;
        assert_eq!(answer.unwrap().headers(), response(script).headers());
        assert_eq!(server.asked(), [Duration::ZERO], "{script}");
    }
}

#[tokio::test(start_paused = true)]
async fn request_is_sent_again_as_it_was() {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&sent);
    let service = service_fn(move |request: Request<Full<Bytes>>| {
        let log = Arc::clone(&log);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let mut log = log.lock().unwrap();
            log.push((parts.method, parts.uri, parts.headers, body));
            Ok::<_, Infallible>(match log.len() {
                3 => response(""),
                _ => response("status: 429 | retry-after: 1"),
            })
        }
    });
    let pace = PaceLayer::new().retry(3).layer(service);
    let request = Request::post("http://a/x?y").header("x-id", "7");
    let answer = pace
        .oneshot(request.body(Full::from("body")).unwrap())
        .await;
    assert_eq!(answer.unwrap().status(), StatusCode::OK);
    let sent = sent.lock().unwrap();
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|each| *each == sent[0]), "{sent:?}");
    let (method, uri, headers, body) = &sent[0];
    assert_eq!(
        (method, &uri.to_string()[..]),
        (&Method::POST, "http://a/x?y")
    );
    assert_eq!(
        (&headers["x-id"], &body[..]),
        (&"7".parse().unwrap(), &b"body"[..])
    );
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

/// Returns the number of servers that a layer remembers.
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
async fn requests_that_leave_the_line_do_not_block_others() {
    let server = Server::new(&["status: 429 | retry-after: 5", ""]);
    let pace = PaceLayer::new().layer(server.service());
    pace.clone().oneshot(request("a")).await.unwrap();
    let mut line = Vec::new();
    for _ in 0..4 {
        let mut waits = Box::pin(pace.clone().oneshot(request("a")));
        assert!(poll(waits.as_mut()).is_pending());
        line.push(waits);
    }
    // The first, and one in the middle.
    drop(line.remove(0));
    drop(line.remove(1));
    for waits in line {
        waits.await.unwrap();
    }
    assert_eq!(server.asked(), [0, 5, 5].map(|secs| SECOND * secs));
}
