include!("pages/usage.rs");

use futures_util::poll;
use http_body_util::BodyExt;

use crate::support::bucket;

fn post_to(path: &str, length: Option<u64>, body: Body) -> Request {
    let mut request = super::from_ip("203.0.113.7").method("POST").uri(path);
    if let Some(length) = length {
        request = request.header(CONTENT_LENGTH, length);
    }
    request.body(body).unwrap()
}

async fn left(limiter: &Limiter, limit: &str) -> Option<u32> {
    bucket(limiter, limit, "203.0.113.7").await.remaining()
}

#[tokio::test]
async fn upload_is_charged_what_was_read() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter.clone());
    let upload = post_to("/upload", None, Body::from(vec![0; 3_000]));
    let response = super::send(&app, upload).await;
    assert_eq!(response.status(), 201);
    drop(response);
    assert_eq!(left(&limiter, "upload-kilobytes").await, Some(9_997));

    // It says five megabytes, and breaks off after two chunks.
    let chunks = [
        Ok(vec![0; 2_048]),
        Ok(vec![0; 1]),
        Err("the client is gone"),
    ];
    let broken = Body::from_stream(stream::iter(chunks));
    let response = super::send(&app, post_to("/upload", Some(5 << 20), broken)).await;
    assert_eq!(response.status(), 400);
    drop(response);
    assert_eq!(left(&limiter, "upload-kilobytes").await, Some(9_994));

    let large = post_to("/upload", Some(20 << 20), Body::empty());
    assert_eq!(super::send(&app, large).await.status(), 413);
}

#[tokio::test]
async fn upload_stops_at_what_it_has_reserved() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter.clone());
    // It does not say how long it is, and reserves a megabyte.
    for (bytes, status, left_over) in [(1_024_000, 201, 9_000), (1_024_001, 413, 8_000)] {
        let response =
            super::send(&app, post_to("/upload", None, Body::from(vec![0; bytes]))).await;
        assert_eq!(response.status(), status);
        drop(response);
        assert_eq!(left(&limiter, "upload-kilobytes").await, Some(left_over));
    }
}

/// As by a timeout, or where a connection goes away while the handler waits for more.
#[tokio::test]
async fn upload_that_is_dropped_is_charged_what_was_read() {
    let (limiter, _) = super::limiter(limits());
    let begun = stream::iter([Ok::<_, Infallible>(vec![0; 3 * 1024])]);
    let body = Body::from_stream(begun.chain(stream::pending()));
    let app = app(limiter.clone());
    let mut upload = Box::pin(super::send(&app, post_to("/upload", None, body)));
    assert!(poll!(&mut upload).is_pending());
    assert_eq!(left(&limiter, "upload-kilobytes").await, Some(9_000));
    drop(upload);
    assert_eq!(left(&limiter, "upload-kilobytes").await, Some(9_997));
}

#[tokio::test]
async fn answer_is_charged_what_was_generated() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter.clone());
    let response = super::send(&app, post_to("/chat", None, Body::from("who is it"))).await;
    assert_eq!(left(&limiter, "tokens").await, Some(4_000));
    let answer = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(answer, "who is it");
    assert_eq!(left(&limiter, "tokens").await, Some(4_997));

    // A client that leaves after two of three tokens.
    let response = super::send(&app, post_to("/chat", None, Body::from("who is it"))).await;
    let mut body = response.into_body();
    for _ in 0..2 {
        body.frame().await.unwrap().unwrap();
    }
    drop(body);
    assert_eq!(left(&limiter, "tokens").await, Some(4_995));
}
