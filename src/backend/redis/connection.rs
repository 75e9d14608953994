//! One connection, from its beginning to its end.

use std::{sync::Arc, time::Duration};

use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::ClientLike,
    types::{FromValue, Value, config::Config},
};
use tokio::sync::watch;

use super::{
    config::{self, custom, once},
    error::{Failure, RedisError},
};

/// A client that serves one connection, and the reason for the connection's end. It has no `Debug`, since a client
/// holds the password.
///
/// fred fails the calls that are in flight when a connection ends. But it keeps a call that is sent right after that,
/// and never answers it. So a call waits no longer than its connection lasts.
pub(super) struct Connection {
    client: Arc<Client>,
    end: watch::Sender<Option<Error>>,
}

impl Connection {
    pub(super) fn new(config: Config) -> Self {
        Self {
            client: Arc::new(config::client(config)),
            end: watch::Sender::new(None),
        }
    }

    pub(super) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Sends a command, once and immediately, and waits for its reply for no longer than the connection lasts.
    pub(super) async fn send<T: FromValue>(
        &self,
        command: &'static str,
        arguments: Vec<Value>,
        timeout: Duration,
    ) -> Result<T, Failure> {
        let client = self.client.with_options(&once(timeout, true));
        let reply = self.outlives(client.custom(custom(command), arguments));
        reply.await?.map_err(|error| self.failure(error))
    }

    /// Sends `ASKING` and a command, for a slot that the server is importing. No other command comes between the two.
    pub(super) async fn send_asking(
        &self,
        command: &'static str,
        arguments: Vec<Value>,
        timeout: Duration,
    ) -> Result<Value, Failure> {
        let pipeline = self.client.pipeline().with_options(&once(timeout, true));
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
        match (&failure, self.problem()) {
            (Failure::Redis(RedisError::Disconnected(_)), Some(reason)) => reason.into(),
            _ => failure,
        }
    }

    /// Ends the connection for its calls, unless it has ended before.
    pub(super) fn end(&self, because: Error) {
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            if is_first {
                *end = Some(because);
            }
            is_first
        });
    }

    /// Returns a guard that ends the connection when the task that serves it is dropped, for example with its runtime.
    pub(super) fn ends_with(&self) -> EndsWith<'_> {
        EndsWith(self)
    }

    /// The reason for its end, if it has ended.
    pub(super) fn problem(&self) -> Option<RedisError> {
        self.end.borrow().clone().map(RedisError::disconnected)
    }

    /// Waits for a reply, for no longer than the connection lasts. If the connection ends first, the server may have
    /// run the call.
    async fn outlives<T>(&self, reply: impl Future<Output = T>) -> Result<T, RedisError> {
        tokio::select! {
            // A reply that has arrived counts, even if the connection has ended since.
            biased;
            reply = reply => Ok(reply),
            error = self.ended() => Err(RedisError::disconnected(error)),
        }
    }

    async fn ended(&self) -> Error {
        let mut end = self.end.subscribe();
        let error = end.wait_for(Option::is_some).await;
        // The sender is part of `self`, so the wait cannot fail, and the end always has an error.
        let error = error.ok().and_then(|error| error.clone());
        error.unwrap_or_else(given_up)
    }
}

/// Ends a connection when it is dropped.
pub(super) struct EndsWith<'a>(&'a Connection);

impl Drop for EndsWith<'_> {
    fn drop(&mut self) {
        self.0.end(given_up());
    }
}

fn given_up() -> Error {
    Error::new(
        ErrorKind::Canceled,
        "nothing serves the connection any more",
    )
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::sync::oneshot;

    use super::*;

    fn connection() -> Connection {
        Connection::new(Config::default())
    }

    fn closed() -> Error {
        Error::new(ErrorKind::IO, "closed")
    }

    #[tokio::test]
    async fn call_fails_when_its_connection_ends_and_at_once_after_that() {
        let connection = connection();
        let call = connection.outlives(pending::<()>());
        let ends = async {
            tokio::task::yield_now().await;
            connection.end(closed());
            connection.end(given_up());
        };
        let (failed, ()) = tokio::join!(call, ends);
        for failed in [failed, connection.outlives(pending()).await] {
            let Err(RedisError::Disconnected(reason)) = failed else {
                panic!("{failed:?}");
            };
            assert_eq!(reason.to_string(), "closed", "the first reason counts");
        }
    }

    #[test]
    fn dropped_call_fails_for_the_reason_for_which_its_connection_has_ended() {
        let connection = connection();
        let reason = |error| RedisError::from(connection.failure(error)).to_string();
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

    #[tokio::test]
    async fn reply_that_is_there_counts_though_the_connection_has_ended() {
        let connection = connection();
        connection.end(closed());
        assert_eq!(connection.outlives(ready(1)).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn call_fails_when_nothing_serves_its_connection_any_more() {
        let connection = connection();
        drop(connection.ends_with());
        let failed = connection.outlives(pending::<()>()).await;
        assert!(matches!(failed, Err(RedisError::Disconnected(_))));
        assert!(matches!(
            connection.problem(),
            Some(RedisError::Disconnected(_))
        ));
    }
}
