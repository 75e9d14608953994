//! The conformance suite on both kinds of tables.

use tollgate_postgres::PostgresBackend;

use crate::server::Server;

async fn unlogged() -> PostgresBackend {
    Server::shared().backend("unlogged").await
}

async fn durable() -> PostgresBackend {
    let backend = Server::shared().unmade("durable").durable();
    backend.create_table().await.expect("it may");
    backend
}

tollgate::testing::conformance!(unlogged_table, unlogged().await);
tollgate::testing::conformance!(durable_table, durable().await);
