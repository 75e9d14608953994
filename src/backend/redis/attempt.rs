//! One attempt at a command.

use std::{sync::Arc, time::Duration};

use fred::{
    clients::{Client, WithOptions},
    error::Error,
    interfaces::ClientLike,
    types::{FromValue, Value},
};

use super::{
    config::{custom, once},
    connection::Connection,
    error::{Failure, RedisError},
};

/// A client for one attempt, made immediately or not at all. It has no `Debug`, because a client holds the password.
pub(super) struct Attempt {
    client: WithOptions<Client>,
    connection: Arc<Connection>,
}

impl Attempt {
    pub(super) fn new(connection: Arc<Connection>, timeout: Duration) -> Self {
        Self {
            client: connection.client().with_options(&once(timeout, true)),
            connection,
        }
    }

    /// Sends a command, and waits for its reply for no longer than its connection lasts.
    pub(super) async fn send<T: FromValue>(
        &self,
        command: &'static str,
        arguments: Vec<Value>,
    ) -> Result<T, Failure> {
        let reply = self.client.custom(custom(command), arguments);
        let reply = self.outlives(reply).await?;
        reply.map_err(|error| self.failure(error))
    }

    /// Sends `ASKING` and a command, for a slot that the server is importing. No other command comes between the two.
    pub(super) async fn send_asking(
        &self,
        command: &'static str,
        arguments: Vec<Value>,
    ) -> Result<Value, Failure> {
        let pipeline = self.client.pipeline().with_options(self.client.options());
        let _: Value = pipeline
            .custom(custom("ASKING"), Vec::<Value>::new())
            .await?;
        let _: Value = pipeline.custom(custom(command), arguments).await?;
        let mut replies = self.outlives(pipeline.try_all::<Value>()).await?;
        let last = replies.pop().unwrap_or(Ok(Value::Null));
        last.map_err(|error| self.failure(error))
    }

    /// Returns the failure of a call. If the connection has ended, that has the reason: fred drops calls without one.
    fn failure(&self, error: Error) -> Failure {
        let failure = Failure::from(error);
        let ended = self.connection.problem();
        match (&failure, ended) {
            (Failure::Redis(RedisError::Disconnected(_)), Some(reason)) => reason.into(),
            _ => failure,
        }
    }

    async fn outlives<T>(&self, reply: impl Future<Output = T>) -> Result<T, Failure> {
        Ok(self.connection.outlives(reply).await?)
    }
}

#[cfg(test)]
mod tests {
    use fred::{error::ErrorKind, types::config::Config};
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn dropped_call_fails_for_the_reason_for_which_its_connection_has_ended() {
        let connection = Arc::new(Connection::new(Config::default()));
        let attempt = Attempt::new(Arc::clone(&connection), Duration::from_secs(1));
        let reason = |error| RedisError::from(attempt.failure(error)).to_string();
        let dropped = || {
            let (_, reply) = oneshot::channel::<()>();
            Error::from(reply.blocking_recv().unwrap_err())
        };
        let unknown = reason(dropped());
        assert!(unknown.contains("channel closed"), "{unknown}");
        connection.end(Error::new(ErrorKind::Timeout, "two pings are late"));
        let known = reason(dropped());
        assert!(known.contains("two pings are late"), "{known}");
        let answer = reason(Error::new(ErrorKind::Unknown, "OOM out of memory"));
        assert!(
            answer.contains("OOM"),
            "an answer of the server counts: {answer}"
        );
    }
}
