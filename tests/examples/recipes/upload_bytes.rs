//! Uploads: charged is what was read, whatever was announced and however it ends.

#[allow(dead_code, reason = "it is a whole program")]
#[path = "../../../examples/upload_bytes.rs"]
mod example;

use std::{io, net::SocketAddr};

use axum::{Router, body::Body};
use futures_util::{StreamExt, poll, stream};
use http::Request;
use tower::ServiceExt;

use super::clients::{at_once, comes_to_be, count, remaining, start};
use crate::programs::{Connection, Response, Server};

const KIB: usize = 1024;
const UPLOAD: &str = "POST /upload";

fn upload(server: &Server, bytes: usize) -> Response {
    server.request(UPLOAD, b"", &vec![b'x'; bytes])
}

/// What the limit has left, found by an upload of nothing, which reserves 1 and gives it back.
fn left(server: &Server) -> u32 {
    match upload(server, 0) {
        response if response.status == 429 => 0,
        response => remaining(&response) + 1,
    }
}

/// An upload that has begun, and sends its body by and by.
fn begin(server: &Server, header: &str) -> Connection {
    let mut connection = server.connect();
    connection.send(format!(
        "{UPLOAD} HTTP/1.1\r\nhost: test\r\n{header}\r\n\r\n"
    ));
    connection
}

fn begin_chunked(server: &Server) -> Connection {
    begin(server, "transfer-encoding: chunked")
}

#[test]
fn each_kibibyte_begun_counts() {
    let (_program, server) = start("upload_bytes");
    let mut left_over = 1024;
    for (bytes, kib) in [(0, 0), (1, 1), (KIB, 1), (KIB + 1, 2), (300 * KIB, 300)] {
        let response = upload(&server, bytes);
        assert_eq!(response.status, 200);
        assert_eq!(response.body, format!("charged {kib} KiB\n"));
        left_over -= kib;
        assert_eq!(left(&server), left_over);
    }
}

#[test]
fn upload_without_a_length_is_charged_what_it_sends() {
    let (_program, server) = start("upload_bytes");
    let mut connection = begin_chunked(&server);
    for _ in 0..3 {
        connection.send_chunk([b'x'; 10 * KIB]);
        // It has reserved the fixed amount.
        comes_to_be(1024 - 256, || left(&server));
    }
    connection.send_chunk("");
    let response = connection.response();
    assert_eq!(
        (response.status, &*response.body),
        (200, "charged 30 KiB\n")
    );
    assert_eq!(left(&server), 1024 - 30);
}

#[test]
fn upload_of_more_than_was_reserved_is_stopped() {
    let (_program, server) = start("upload_bytes");
    let mut connection = begin_chunked(&server);
    connection.send_chunk(vec![b'x'; 256 * KIB]);
    connection.send_chunk("x");
    assert_eq!(connection.response().status, 413);
    assert_eq!(left(&server), 1024 - 256);
}

#[test]
fn upload_of_just_what_was_reserved_is_not() {
    let (_program, server) = start("upload_bytes");
    let mut connection = begin_chunked(&server);
    connection.send_chunk(vec![b'x'; 256 * KIB]);
    connection.send_chunk("");
    assert_eq!(connection.response().status, 200);
    assert_eq!(left(&server), 1024 - 256);
}

#[test]
fn upload_above_the_whole_limit_is_refused_unread() {
    let (_program, server) = start("upload_bytes");
    for length in ["1048577", "4398046511104", "9223372036854775807"] {
        let mut connection = begin(&server, &format!("content-length: {length}"));
        let refused = connection.response().status;
        assert_eq!(refused, 413, "{length}");
    }
    assert_eq!(left(&server), 1024);
}

#[test]
fn garbage_for_a_length_is_refused_and_costs_nothing() {
    let (_program, server) = start("upload_bytes");
    for length in ["x", "-1", "1, 2", "18446744073709551617", "0x10"] {
        let mut connection = begin(&server, &format!("content-length: {length}"));
        assert_eq!(connection.response().status, 400, "{length}");
    }
    assert_eq!(left(&server), 1024);
}

#[test]
fn what_is_no_upload_reserves_nothing() {
    let (_program, server) = start("upload_bytes");
    for _ in 0..10 {
        assert_eq!(server.get("/upload", "").status, 405);
        assert_eq!(server.get("/", "").status, 404);
    }
    assert_eq!(left(&server), 1024);
}

#[test]
fn broken_chunks_are_charged_as_far_as_they_came() {
    let (_program, server) = start("upload_bytes");
    let mut connection = begin_chunked(&server);
    connection.send_chunk([b'x'; 3 * KIB]);
    connection.send("not a size\r\n");
    assert_eq!(connection.response().status, 400);
    assert_eq!(left(&server), 1024 - 3);
}

#[test]
fn client_that_goes_away_is_charged_what_it_has_sent() {
    let (_program, server) = start("upload_bytes");
    let mut connection = begin(&server, "content-length: 512000");
    connection.send([b'x'; 100 * KIB]);
    comes_to_be(1024 - 500, || left(&server));
    drop(connection);
    comes_to_be(1024 - 100, || left(&server));
    // So is one that sends nothing at all.
    let connection = begin_chunked(&server);
    comes_to_be(1024 - 100 - 256, || left(&server));
    drop(connection);
    comes_to_be(1024 - 100, || left(&server));
}

#[test]
fn connection_that_is_reset_leaves_no_reservation() {
    let (_program, server) = start("upload_bytes");
    let mut connection = server.connect();
    let head = |method| format!("{method} /upload HTTP/1.1\r\nhost: test\r\n");
    connection.send(head("GET") + "\r\n");
    connection.send(head("POST") + "content-length: 102400\r\n\r\n");
    comes_to_be(1024 - 100, || left(&server));
    // To close it while an answer is unread resets it.
    drop(connection);
    comes_to_be(1024, || left(&server));
}

#[test]
fn uploads_at_once_never_get_more_than_there_is() {
    let (_program, server) = start("upload_bytes");
    let responses = at_once(20, |_| {
        let mut connection = begin(&server, "content-length: 102400");
        connection.send([b'x'; 100 * KIB]);
        connection.response()
    });
    assert_eq!((count(&responses, 200), count(&responses, 429)), (10, 10));
    assert_eq!(left(&server), 24);
}

#[test]
fn many_that_go_away_at_once_leave_no_reservation() {
    let (_program, server) = start("upload_bytes");
    for round in 1..=5 {
        at_once(10, |_| {
            let mut connection = begin(&server, "content-length: 81920");
            connection.send([b'x'; 2 * KIB]);
        });
        comes_to_be(1024 - round * 10 * 2, || left(&server));
    }
}

fn request(body: Body) -> Request<Body> {
    let request = Request::post("/upload").extension(SocketAddr::from(([192, 0, 2, 1], 1)));
    request.body(body).unwrap()
}

/// What is reserved while an upload goes on that does not say how long it is.
async fn left_beside_one(app: &Router) -> String {
    let response = app.clone().oneshot(request(Body::empty())).await;
    let head = response.unwrap().into_parts().0;
    let left = head.headers["ratelimit"].to_str().unwrap();
    left.split(';').nth(1).unwrap().to_owned()
}

/// As by a timeout, or where a connection goes away while the handler waits for something else.
#[tokio::test]
async fn handler_that_is_dropped_charges_what_it_has_read() {
    let app = example::app().unwrap();
    let begun = stream::iter([Ok::<_, io::Error>(vec![b'x'; 3 * KIB])]);
    let body = Body::from_stream(begun.chain(stream::pending()));
    let mut upload = Box::pin(app.clone().oneshot(request(body)));
    assert!(poll!(&mut upload).is_pending());
    assert_eq!(left_beside_one(&app).await, "r=512");
    drop(upload);
    // It is settled in a task.
    let settled = async {
        while left_beside_one(&app).await != "r=765" {
            tokio::task::yield_now().await;
        }
    };
    let settled = tokio::time::timeout(std::time::Duration::from_secs(120), settled);
    settled.await.unwrap();
}
