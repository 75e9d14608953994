//! Refused requests that are sent again.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use tollgate::pace::{PaceLayer, Resend};
use tower::{Layer, ServiceExt, service_fn};

use super::{SECOND, Script, Server, request, response};

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
        let asked = server.asked().len();
        assert!(asked == 1 || script == finals[0] && asked == 2, "{asked}");
    }
}

/// Copies requests that read, and no others.
#[derive(Clone)]
struct Reads;

impl Resend<Full<Bytes>> for Reads {
    fn times(&self) -> u32 {
        3
    }

    fn copy(&self, request: &Request<Full<Bytes>>) -> Option<Request<Full<Bytes>>> {
        (request.method() == Method::GET).then(|| request.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn only_requests_that_can_be_copied_are_sent_again_as_they_were() {
    for (method, status, times) in [
        (Method::GET, StatusCode::OK, 3),
        (Method::POST, StatusCode::TOO_MANY_REQUESTS, 1),
    ] {
        let (sent, seen) = (Arc::new(Mutex::new(Vec::new())), method.clone());
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
        let pace = PaceLayer::new().retry_with(Reads).layer(service);
        let request = Request::builder().method(method).uri("http://a/x?y");
        let request = request.header("x-id", "7").body(Full::from("body"));
        let answer = pace.oneshot(request.unwrap()).await.unwrap();
        assert_eq!(answer.status(), status);
        let sent = sent.lock().unwrap();
        assert_eq!(sent.len(), times);
        assert!(sent.iter().all(|each| *each == sent[0]), "{sent:?}");
        let (method, uri, headers, body) = &sent[0];
        assert_eq!((method, &uri.to_string()[..]), (&seen, "http://a/x?y"));
        assert_eq!(
            (&headers["x-id"], &body[..]),
            (&"7".parse().unwrap(), &b"body"[..])
        );
    }
}
