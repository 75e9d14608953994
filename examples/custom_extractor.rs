//! The tenant in the path, and a custom extractor, which finds the account of an API key and refuses requests without a
//! valid one.
//!
//! ```sh
//! cargo run --example custom_extractor
//! curl -i -H 'x-api-key: 7b3e2f' http://127.0.0.1:3000/t/acme/orders
//! curl -i http://127.0.0.1:3000/t/acme/orders
//! ```

#[path = "shared/failure.rs"]
mod failure;

use std::{collections::HashMap, env, net::SocketAddr};

use axum::{Router, extract::Path, routing::get};
use http::request::Parts;
use tokio::net::TcpListener;
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    id::Id,
    key::{KeyExtractor, MissingId, PathParam},
};

use self::failure::Failure;

/// The account of the key in `x-api-key`. An unknown key is not used as an id, because a client could invent a new one for each
/// request.
#[derive(Debug)]
struct ApiKey {
    accounts: HashMap<&'static str, &'static str>,
}

impl KeyExtractor for ApiKey {
    fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId> {
        let header = parts.headers.get("x-api-key");
        let key = header.and_then(|value| value.to_str().ok());
        match key.and_then(|key| self.accounts.get(key)) {
            Some(account) => Ok(Some((*account).into())),
            None => {
                Err(MissingId::client("send your API key as `x-api-key`").unauthorized("ApiKey"))
            }
        }
    }
}

/// The handler, which gets the same tenant as the rule, however the client spells it.
async fn orders(Path(tenant): Path<String>) -> String {
    format!("the orders of {tenant}\n")
}

fn app() -> Result<Router, Failure> {
    let limits = Limits::builder()
        .limit("per-address", Limit::per_second(20))
        .limit("per-account", Limit::per_second(5))
        .limit("per-tenant", Limit::per_hour(100).burst(10))
        .build()?;
    let accounts = HashMap::from([("7b3e2f", "alice"), ("90d1c4", "bob")]);
    let layer = RateLimitLayer::with_limiter(Limiter::new(limits, MemoryBackend::new()))
        // It also charges requests that have no valid key.
        .rule(Rule::new("per-address", ClientIp::peer()))
        .rule(Rule::new("per-account", ApiKey { accounts }))
        .rule(Rule::new("per-tenant", PathParam::new("tenant")));
    Ok(Router::new()
        .route("/t/{tenant}/orders", get(orders))
        .route_layer(layer))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let address = env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".into());
    let service = app()?.into_make_service_with_connect_info::<SocketAddr>();
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, service).await?;
    Ok(())
}
