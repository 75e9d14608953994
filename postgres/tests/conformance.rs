//! The conformance suite on both kinds of tables, and tables with unusual names.

use std::time::Duration;

use tollgate::{Limit, Limiter, Limits, Transaction, testing::block_on};
use tollgate_postgres::PostgresBackend;

use crate::{eventually::PATIENCE, server::Server};

async fn unlogged() -> PostgresBackend {
    Server::shared().backend("unlogged").await
}

async fn durable() -> PostgresBackend {
    let backend = Server::shared().backend_without_table("durable").durable();
    backend.create_table().await.expect("it may");
    backend
}

#[test]
fn table_can_have_a_schema_capitals_and_words_of_sql() {
    block_on(async {
        let server = Server::shared();
        server.sql("CREATE SCHEMA \"Orders; \\\"").await;
        for name in ["limit", "Buckets", "Orders; \\.Käse"] {
            let backend = server.backend(name).await;
            backend.connected(PATIENCE).await.unwrap();
            let short = Limit::per(1, Duration::from_millis(1));
            let limits = Limits::builder().limit("short", short);
            let limiter = Limiter::new(limits.build().unwrap(), backend);
            let one = Transaction::new("short", "a");
            assert!(limiter.spend(&one).await.unwrap().allowed());
            // It is swept.
            let quoted = format!("\"{}\"", name.replace('.', "\".\""));
            let count = format!("SELECT count(*) FROM {quoted} WHERE id = 'a'");
            while server.number(&count).await > 0 {
                limiter.peek(&Transaction::new("short", "b")).await.unwrap();
            }
        }
    });
}

tollgate::testing::conformance!(unlogged_table, unlogged().await);
tollgate::testing::conformance!(durable_table, durable().await);
