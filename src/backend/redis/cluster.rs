//! A cluster: a link to each master, and the table that maps slots to masters.
//!
//! fred's cluster client is not used. It stops serving all masters while it reconnects to one, and resends commands. Here, each
//! master fails by itself, and nothing is sent twice.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use fred::types::{
    cluster::ClusterRouting,
    config::{Config, Server, ServerConfig},
};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    task::JoinHandle,
    time::{self, Instant},
};

use super::{
    error::{Failure, RedisError},
    inspection::Inspection,
    link::{Link, RECONNECT_DELAY},
    protocol::{Call, Reply},
};
use crate::random;

/// The number of slots of a cluster.
const SLOTS: usize = 1 << 14;

/// The most redirections that a call follows before it gives up.
const REDIRECTIONS: usize = 4;

/// The time for which a link without slots is kept after its last use.
const KEPT: Duration = Duration::from_secs(60);

pub(super) struct Cluster {
    shared: Arc<Shared>,
    refresher: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    /// The base of every link's configuration, including the password.
    config: Config,
    inspection: Arc<Inspection>,
    routes: watch::Sender<Routes>,
    links: Mutex<HashMap<Server, (Arc<Link>, Instant)>>,
    /// Notified when the table may be outdated.
    stale: Notify,
}

/// The table of slots, or the reason why there is none. Before the first attempt to read it, there is neither.
#[derive(Clone, Default)]
struct Routes {
    /// The master of each slot, as far as it is known.
    slots: Arc<[Option<Arc<Link>>]>,
    masters: Vec<Arc<Link>>,
    trouble: Option<RedisError>,
}

impl Routes {
    fn is_known(&self) -> bool {
        !self.slots.is_empty() || self.trouble.is_some()
    }

    fn is_whole(&self) -> bool {
        !self.slots.is_empty() && self.slots.iter().all(Option::is_some)
    }
}

impl Cluster {
    /// Creates links to the masters of the cluster that the servers of `config` belong to.
    pub(super) fn new(config: Config, inspection: Arc<Inspection>) -> Self {
        Self {
            shared: Arc::new(Shared {
                config,
                inspection,
                routes: watch::Sender::default(),
                links: Mutex::default(),
                stale: Notify::new(),
            }),
            refresher: Mutex::default(),
        }
    }

    /// Starts the task that keeps the table current, unless it is running. Fails outside of a runtime.
    pub(super) fn begin(&self) -> Result<(), RedisError> {
        let mut refresher = self.refresher.lock();
        if refresher.as_ref().is_none_or(JoinHandle::is_finished) {
            let runtime = Handle::try_current().map_err(|_| RedisError::no_runtime())?;
            *refresher = Some(runtime.spawn(Arc::clone(&self.shared).keep_fresh()));
        }
        Ok(())
    }

    /// Returns the reason why a master or the table is missing, if one is.
    pub(super) fn problem(&self) -> Option<RedisError> {
        let routes = self.shared.routes.borrow();
        let of_a_master = routes.masters.iter().find_map(|link| link.problem());
        of_a_master.or_else(|| routes.trouble.clone())
    }

    pub(super) fn is_open(&self) -> bool {
        self.shared
            .routes
            .borrow()
            .masters
            .iter()
            .any(|link| link.is_open())
    }

    /// Waits until all slots have a master that is connected.
    pub(super) async fn connected(&self) -> Result<(), RedisError> {
        self.begin()?;
        let mut routes = self.shared.routes.subscribe();
        let settled = |routes: &Routes| {
            routes.is_whole()
                || routes
                    .trouble
                    .as_ref()
                    .is_some_and(RedisError::is_permanent)
        };
        let routes = routes
            .wait_for(settled)
            .await
            .map(|routes| routes.clone())
            .unwrap_or_default();
        if let Some(error) = routes.trouble {
            return Err(error);
        }
        for link in &routes.masters {
            link.connected().await?;
        }
        Ok(())
    }

    /// Calls the script on the master of a slot, and follows the slot if it has moved.
    pub(super) async fn run(
        &self,
        slot: u16,
        call: Call,
        deadline: Instant,
    ) -> Result<Reply, Failure> {
        self.begin().map_err(Failure::NotDone)?;
        let mut link = match self.master(slot) {
            Some(link) => link,
            None => self
                .first_master(slot, deadline)
                .await
                .map_err(Failure::NotDone)?,
        };
        let mut asking = false;
        for _ in 0..REDIRECTIONS {
            let failure = match link.run(slot, call.clone(), asking, deadline).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            asking = matches!(failure, Failure::Ask(_));
            if !asking && !matches!(failure, Failure::NotABucket(..) | Failure::NoRoom(_)) {
                self.shared.stale.notify_one();
            }
            let (Failure::Moved(to) | Failure::Ask(to)) = failure else {
                return Err(failure);
            };
            link = self.shared.link_to(to.server(&link.server()));
            let connected = time::timeout_at(deadline, link.connected()).await;
            connected
                .unwrap_or(Err(RedisError::Timeout))
                .map_err(Failure::NotDone)?;
        }
        Err(Failure::NotDone(RedisError::refused(
            "MOVED, again and again",
        )))
    }

    fn master(&self, slot: u16) -> Option<Arc<Link>> {
        self.shared
            .routes
            .borrow()
            .slots
            .get(usize::from(slot))?
            .clone()
    }

    /// Returns the master of a slot once the first attempt to read the table has ended.
    async fn first_master(&self, slot: u16, deadline: Instant) -> Result<Arc<Link>, RedisError> {
        let mut routes = self.shared.routes.subscribe();
        let known = time::timeout_at(deadline, routes.wait_for(Routes::is_known)).await;
        let trouble = match known {
            Ok(Ok(routes)) => routes.trouble.clone(),
            _ => Some(RedisError::Timeout),
        };
        self.shared.stale.notify_one();
        let nobody = || RedisError::refused("CLUSTERDOWN no master has the keys' slot");
        self.master(slot)
            .ok_or_else(|| trouble.unwrap_or_else(nobody))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(refresher) = self.refresher.lock().take() {
            refresher.abort();
        }
    }
}

impl Shared {
    /// Reads the table whenever it may be outdated. Many calls notice the same change at once, so it waits a little.
    async fn keep_fresh(self: Arc<Self>) {
        loop {
            while !self.refresh().await {
                time::sleep(RECONNECT_DELAY / 4).await;
            }
            self.stale.notified().await;
            time::sleep(RECONNECT_DELAY / 4).await;
        }
    }

    /// Asks one server after another for the table, and takes the first answer.
    async fn refresh(&self) -> bool {
        let (links, mut trouble) = (self.all_links(), None::<RedisError>);
        for link in &links {
            let slots = link.query("CLUSTER", "SLOTS").await;
            let routing = slots.and_then(|slots| {
                ClusterRouting::from_cluster_slots(slots, link.server().host)
                    .map_err(RedisError::of)
            });
            match routing {
                Ok(routing) if !routing.slots().is_empty() => {
                    self.adopt(&routing);
                    return true;
                }
                Ok(_) => tracing::debug!(?link, "a server has an empty table of slots"),
                Err(error) if trouble.as_ref().is_some_and(RedisError::is_permanent) => {
                    tracing::debug!(%error, ?link, "a server has no table of slots");
                }
                Err(error) => trouble = Some(error),
            }
        }
        // As long as a link is connecting for the first time, nothing has failed yet.
        if links.iter().all(|link| link.has_attempted()) {
            self.routes.send_modify(|routes| routes.trouble = trouble);
        }
        false
    }

    /// Returns all links, connected ones first, in an order that differs from one call to the next: a server that is cut off
    /// from the others has an outdated table.
    fn all_links(&self) -> Vec<Arc<Link>> {
        for seed in self.config.server.hosts() {
            let _in_a_runtime = self.link_to(seed).begin();
        }
        let mut links: Vec<_> = self
            .links
            .lock()
            .values()
            .map(|(link, _)| Arc::clone(link))
            .collect();
        links.sort_by_cached_key(|link| (link.problem().is_some(), random::number()));
        links
    }

    fn adopt(&self, routing: &ClusterRouting) {
        let (mut slots, mut masters) = (vec![None; SLOTS], Vec::<Arc<Link>>::new());
        for range in routing.slots() {
            let link = self.link_to(range.primary.clone());
            let slots = slots.get_mut(usize::from(range.start)..=usize::from(range.end));
            slots.unwrap_or_default().fill(Some(Arc::clone(&link)));
            if !masters.iter().any(|known| Arc::ptr_eq(known, &link)) {
                masters.push(link);
            }
        }
        let is_master = |link: &Arc<Link>| masters.iter().any(|master| Arc::ptr_eq(master, link));
        let mut links = self.links.lock();
        links.retain(|_, (link, used)| is_master(link) || used.elapsed() < KEPT);
        self.routes.send_replace(Routes {
            slots: slots.into(),
            masters,
            trouble: None,
        });
    }

    /// Returns the link to a server, and creates it if necessary.
    fn link_to(&self, server: Server) -> Arc<Link> {
        let mut links = self.links.lock();
        let (link, used) = links.entry(server).or_insert_with_key(|server| {
            let mut config = self.config.clone();
            config.server = ServerConfig::Centralized {
                server: server.clone(),
            };
            let link = Link::new(config, Arc::clone(&self.inspection));
            (Arc::new(link), Instant::now())
        });
        *used = Instant::now();
        Arc::clone(link)
    }
}

impl fmt::Debug for Cluster {
    /// Leaves out the configuration, because it can contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("masters", &self.shared.routes.borrow().masters)
            .finish_non_exhaustive()
    }
}
