//! The servers that buckets are on.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use fred::types::config::Config;
use tokio::{sync::OnceCell, time};

use super::{
    cluster::Cluster,
    config::{LinkSettings, RECONNECT_DELAY},
    error::RedisError,
    inspection,
    keys::KeyForm,
    link::Link,
};
use crate::check::{Checks, Finding, Reporter};

/// More than any server needs. Each is a socket here and there.
const MOST_CONNECTIONS: usize = 1000;

/// Servers, and the findings about them when they were first connected.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) servers: RedisServers,
    reporter: Reporter,
    findings: OnceCell<Vec<Finding>>,
}

#[derive(Debug)]
pub(super) enum RedisServers {
    Single(Links),
    Cluster(Arc<Cluster>),
}

/// Links to one server, used in turn.
#[derive(Debug)]
pub(super) struct Links {
    links: Vec<Arc<Link>>,
    turn: AtomicUsize,
}

impl Links {
    fn new(links: impl IntoIterator<Item = Link>) -> Self {
        Self {
            links: links.into_iter().map(Arc::new).collect(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Returns the next connected link or, if none is connected, the next one.
    pub(super) fn next(&self) -> &Arc<Link> {
        let turn = match self.links.len() {
            1 => 0,
            links => self.turn.fetch_add(1, Ordering::Relaxed) % links,
        };
        let (before, from) = self.links.split_at(turn);
        let mut inline = from.iter().chain(before);
        inline
            .find(|link| link.is_connected())
            .unwrap_or(&self.links[turn])
    }

    async fn connected(&self) -> Result<(), RedisError> {
        for link in &self.links {
            link.connected().await?;
        }
        Ok(())
    }
}

impl Watched {
    pub(super) fn new(servers: RedisServers, reporter: Reporter) -> Self {
        Self {
            servers,
            reporter,
            findings: OnceCell::new(),
        }
    }

    pub(super) async fn look_once_connected(self: Arc<Self>) {
        while self.servers.connected().await.is_err() {
            time::sleep(RECONNECT_DELAY).await;
        }
        self.look().await;
    }

    /// Returns whether the servers have been inspected.
    pub(super) fn is_done(&self) -> bool {
        self.findings.initialized()
    }

    /// Returns the finding for which decisions are refused, if there is one.
    pub(super) async fn refusal(&self) -> Option<&Finding> {
        let findings = self.look().await.iter();
        findings
            .take_while(|_| self.reporter.checks().is_strict())
            .next()
    }

    /// Inspects the connected servers, and reports the findings.
    async fn look(&self) -> &[Finding] {
        let inspect = async || {
            let findings = self.servers.inspect(self.reporter.checks()).await;
            findings
                .iter()
                .for_each(|finding| self.reporter.report(finding));
            findings
        };
        self.findings.get_or_init(inspect).await
    }
}

impl RedisServers {
    pub(super) fn new(
        config: Config,
        connections: usize,
        settings: LinkSettings,
        form: KeyForm,
    ) -> Result<Self, RedisError> {
        if connections == 0 {
            let problem = "`connections` is 0: use at least 1";
            return Err(RedisError::config(problem));
        }
        if config.server.is_clustered() {
            if connections > 1 {
                return Err(RedisError::config(
                    "on a cluster, there is one connection to each master: leave out `connections`",
                ));
            }
            return Ok(Self::Cluster(Arc::new(Cluster::new(
                config, settings, form,
            ))));
        }
        if connections > MOST_CONNECTIONS {
            let problem = format!(
                "{connections} connections to one server are too many: use at most {MOST_CONNECTIONS}; one serves many \
                 thousand decisions per second"
            );
            return Err(RedisError::config(&problem));
        }
        let links = (0..connections).map(|_| Link::new(config.clone(), settings));
        Ok(Self::Single(Links::new(links)))
    }

    /// Starts to connect, unless that has started. Fails outside of a runtime.
    pub(super) fn begin(&self) -> Result<(), RedisError> {
        match self {
            Self::Single(links) => links.links.iter().try_for_each(|link| link.begin()),
            Self::Cluster(cluster) => cluster.begin(),
        }
    }

    pub(super) async fn connected(&self) -> Result<(), RedisError> {
        match self {
            Self::Single(links) => links.connected().await,
            Self::Cluster(cluster) => cluster.connected().await,
        }
    }

    /// Returns the reason why there is no connection, if it is known.
    pub(super) fn problem(&self) -> Option<RedisError> {
        match self {
            Self::Single(links) => links.links.iter().find_map(|link| link.problem()),
            Self::Cluster(cluster) => cluster.problem(),
        }
    }

    /// Fails if the user may not run scripts on a connected server.
    pub(super) async fn may_run_scripts(&self) -> Result<(), RedisError> {
        for link in self.one_link_each() {
            inspection::may_run_scripts(&link).await?;
        }
        Ok(())
    }

    async fn inspect(&self, checks: Checks) -> Vec<Finding> {
        let mut findings = Vec::new();
        for link in self.one_link_each() {
            findings.extend(inspection::inspect(&link, checks).await);
        }
        findings
    }

    /// Returns a link to each known server.
    fn one_link_each(&self) -> Vec<Arc<Link>> {
        match self {
            Self::Single(links) => vec![Arc::clone(links.next())],
            Self::Cluster(cluster) => cluster.masters(),
        }
    }
}
