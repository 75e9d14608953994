//! The layer on memory: requests, responses, and the stacks that it is put into.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod assessments;
#[path = "../support/eventually.rs"]
mod eventually;
#[cfg(feature = "failure-policy")]
mod failures;
mod fields;
mod grpc;
mod grpc_web;
mod guide;
mod ids;
#[cfg(feature = "axum")]
mod limit_from;
mod own_denials;
mod own_limits;
mod pace;
mod permits;
mod recipes;
mod refusals;
mod rules;
mod secrets;
#[cfg(feature = "axum")]
mod stacks;
#[path = "../support/mod.rs"]
mod support;
mod waiting;
mod x_fields;

/// Serves an app, which knows the addresses of its peers, and returns its own.
async fn serve(app: axum::Router) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<std::net::SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}
