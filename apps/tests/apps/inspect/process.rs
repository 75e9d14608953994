//! The example as it is started: nothing for admins, unless there is a token.

use std::net::TcpListener;

use serde_json::json;

use super::server::TOKEN;
use crate::programs::{Program, run_in};

const ANYWHERE: &str = "127.0.0.1:0";

#[test]
fn admins_have_a_server_of_their_own() {
    let variables = [
        ("ADDR", ANYWHERE),
        ("ADMIN_ADDR", ANYWHERE),
        ("ADMIN_TOKEN", TOKEN),
    ];
    let program = Program::start_in("inspect", &variables);
    let (public, admin) = (program.next_server(), program.next_server());
    let bearer = format!("Bearer {TOKEN}");
    let authorization = [("authorization", &*bearer)];
    let path = "/buckets/requests/127.0.0.1";
    assert_eq!(public.get("/", &[]).status, 200);
    let state = admin.get(path, &authorization).json();
    assert_eq!(state["key"], json!("1:127.0.0.1"));
    assert_eq!(admin.get(path, &[]).status, 401);
    assert_eq!(admin.get("/", &authorization).status, 404);
    for path in ["/limits", path] {
        assert_eq!(public.get(path, &authorization).status, 404, "{path}");
    }
    let block = "/blocks/abuse/127.0.0.1?for=1h";
    let blocked = admin.send("PUT", block, &authorization, "");
    assert_eq!(blocked.status, 200, "{blocked:?}");
    assert_eq!(public.get("/", &[]).status, 429, "both have one limiter");
}

#[test]
fn nothing_is_there_without_a_token() {
    // It would not start if it listened there.
    let taken = TcpListener::bind(ANYWHERE).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let variables = [("ADDR", ANYWHERE), ("ADMIN_ADDR", &*address)];
    let program = Program::start_in("inspect", &variables);
    let public = program.next_server();
    assert_eq!(public.get("/", &[]).status, 200);
    let bearer = format!("Bearer {TOKEN}");
    let authorization = [("authorization", &*bearer)];
    for headers in [&[][..], &authorization, &[("authorization", "Bearer ")]] {
        assert_eq!(public.get("/limits", headers).status, 404);
        assert_eq!(
            public.get("/buckets/requests/127.0.0.1", headers).status,
            404
        );
    }
    drop(program);
    let with_token = [&variables[..], &[("ADMIN_TOKEN", TOKEN)]].concat();
    let output = run_in("inspect", &with_token);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("ADMIN_ADDR: cannot listen on"),
        "{message}"
    );
}
