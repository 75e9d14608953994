//! The settings of a backend on Redis.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use tokio::runtime::Handle;

use super::{
    RedisBackend,
    address::{self, AskLogin, Target},
    error::RedisError,
    home::HomeRuntime,
    keys::KeyForm,
    protocol::Call,
    server_set::{Login, ServerSet},
    tls::TlsSettings,
};
use crate::metrics::StoreDurations;

/// The longest timeout. Clocks and timers cannot represent every [`Duration`].
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Builds a [`RedisBackend`]. Created by [`RedisBackend::builder`]; [`KeyForm`] has an example.
#[derive(Clone)]
pub struct RedisBackendBuilder {
    url: String,
    user: Option<String>,
    password: Option<String>,
    ask_login: Option<Arc<AskLogin>>,
    sentinel_password: Option<String>,
    tls: TlsSettings,
    form: KeyForm,
    timeout: Duration,
}

impl RedisBackendBuilder {
    pub(super) fn new(url: String) -> Self {
        Self {
            url,
            user: None,
            password: None,
            ask_login: None,
            sentinel_password: None,
            tls: TlsSettings::default(),
            form: KeyForm::default(),
            timeout: Duration::from_millis(250),
        }
    }

    /// Sets the user, instead of the one in the URL. It is not percent-encoded.
    ///
    /// ```no_run
    /// use tollgate::RedisBackend;
    ///
    /// # fn example(password: String, authorities: Vec<u8>) -> Result<(), Box<dyn std::error::Error>> {
    /// let redis = RedisBackend::builder("rediss-cluster://buckets-1:6379?node=buckets-2:6379")
    ///     .user("tollgate")
    ///     .password(password)
    ///     .root_certificates(authorities)
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets the password, instead of the one in the URL. It is not percent-encoded. [`user`](Self::user) has an example.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Sets a function that is asked for the user and the password of each connection, in place of fixed ones: for passwords that
    /// are rotated, and for the tokens of cloud providers, which expire. Without a user, it returns `default`. The sentinels' own
    /// password stays fixed.
    ///
    /// A connection that is open stays open when its password changes. A server that ends it is connected again at once, with what
    /// the function returns then. It should return within half a second: decisions fail meanwhile. A function that obtains tokens
    /// keeps the last one until shortly before its end.
    ///
    /// ```no_run
    /// use std::io;
    /// use tollgate::RedisBackend;
    ///
    /// # fn example() -> Result<(), tollgate::backend::redis::RedisError> {
    /// let redis = RedisBackend::builder("rediss://buckets:6379")
    ///     .credentials(|| async {
    ///         let password = tokio::fs::read_to_string("/run/secrets/redis").await?;
    ///         Ok::<_, io::Error>(("tollgate".to_owned(), password))
    ///     })
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn credentials<F, A, E>(mut self, ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<(String, String), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.ask_login = Some(Arc::new(move || {
            let asked = ask();
            Box::pin(async {
                let (user, password) = asked
                    .await
                    .map_err(|error| RedisError::Credentials(error.into().into()))?;
                Ok(Login {
                    user: Some(user),
                    password: Some(password),
                })
            })
        }));
        self
    }

    /// Sets the sentinels' own password, instead of `sentinelPassword` in the URL. It is not percent-encoded. The servers'
    /// [`password`](Self::password) is another one. Without sentinels in the URL, this is an error.
    #[must_use]
    pub fn sentinel_password(mut self, password: impl Into<String>) -> Self {
        self.sentinel_password = Some(password.into());
        self
    }

    /// Sets the authorities that may have signed a server's certificate, as PEM, instead of those that the system
    /// trusts. Without TLS in the URL, this is an error. [`user`](Self::user) has an example.
    #[must_use]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.authorities = Some(pem.into());
        self
    }

    /// Sets the certificate and the private key, as PEM, that a server with `tls-auth-clients` asks for. Intermediate certificates
    /// follow the certificate. Without TLS in the URL, this is an error.
    #[must_use]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.tls.client = Some((certificate.into(), key.into()));
        self
    }

    /// Sets the form of bucket keys.
    #[must_use]
    pub fn keys(mut self, form: KeyForm) -> Self {
        self.form = form;
        self
    }

    /// Sets how long a decision may take, with all its round trips. The default is 250 ms. A decision without an
    /// answer by then is an error, and may have been charged. Durations above a year count as a year.
    ///
    /// A decision also fails if its connection ends. The client itself ends the connection if the server answers nothing for two
    /// seconds after a call has timed out.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(LONGEST);
        self
    }

    /// Builds the backend.
    ///
    /// # Errors
    ///
    /// If the URL or another setting is not valid: if the timeout is zero, or if certificates cannot be read or the URL is
    /// without TLS.
    pub fn build(self) -> Result<RedisBackend, RedisError> {
        if self.timeout.is_zero() {
            return Err(RedisError::config(
                "the timeout is 0: use, for example, 250 ms",
            ));
        }
        let home = Arc::new(HomeRuntime::new(self.target()?, self.form));
        // Outside of a runtime, the first decision connects.
        if let Ok(runtime) = Handle::try_current() {
            home.begin(&runtime);
        }
        Ok(RedisBackend {
            home,
            timeout: self.timeout,
            durations: StoreDurations::default(),
        })
    }

    fn target(&self) -> Result<Target, RedisError> {
        let probe = Arc::new(Call::probe(&self.form));
        let (mut target, has_tls) = address::parse(&self.url, probe)?;
        if has_tls {
            target.tls = Some(self.tls.connector()?);
        } else if !self.tls.is_default() {
            return Err(RedisError::config(
                "it has certificates, but its URL is without TLS: use `rediss://`, `rediss-cluster://` or `rediss-sentinel://`",
            ));
        }
        if self.sentinel_password.is_some() {
            let ServerSet::Sentinels { login, .. } = &mut target.servers else {
                return Err(RedisError::config(
                    "there are no sentinels: leave out `sentinel_password`, or use `redis-sentinel://`",
                ));
            };
            login.password.clone_from(&self.sentinel_password);
        }
        target.login.user = self.user.clone().or(target.login.user);
        target.login.password = self.password.clone().or(target.login.password);
        target.ask_login.clone_from(&self.ask_login);
        Ok(target)
    }
}

impl fmt::Debug for RedisBackendBuilder {
    /// Leaves out the URL, because it can contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBackendBuilder")
            .field("keys", &self.form)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_take_at_most_250_ms_by_default() {
        let builder = RedisBackendBuilder::new("redis://localhost".to_owned());
        assert_eq!(builder.timeout, Duration::from_millis(250));
    }
}
