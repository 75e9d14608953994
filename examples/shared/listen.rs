//! Listens on the address in an environment variable.

use std::env;

use tokio::net::TcpListener;

/// Listens on the address in a variable, or on the default if the variable is not set.
pub(crate) async fn listen(variable: &str, default: &str) -> Result<TcpListener, String> {
    let address = env::var(variable).unwrap_or_else(|_| default.to_owned());
    let listener = TcpListener::bind(&address).await;
    listener.map_err(|error| format!("{variable}: cannot listen on `{address}`: {error}"))
}
