//! A cluster: a link to each master, and the table that maps slots to masters.
//!
//! The links are clients of single servers. fred's cluster client is not used. It stops serving all masters
//! while it reconnects to one, resends commands that were in flight to a server that left the cluster, and
//! terminates if a command with one attempt is answered with `ASK`. Here each master fails
//! independently, and nothing is sent twice.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use fred::{
    types::{
        cluster::ClusterRouting,
        config::{Config, Server, ServerConfig},
    },
    util::redis_keyslot,
};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{self, Instant},
};

use super::{
    answer::ScriptAnswer,
    background::Background,
    call::ScriptCall,
    config::{LinkSettings, RECONNECT_DELAY},
    deadline::Deadline,
    error::{Failure, RedisError},
    keys::KeyForm,
    link::Link,
};
use crate::{
    backend::{ServerId, Servers},
    transaction::Member,
};

/// The number of slots of a cluster.
const SLOTS: usize = 1 << 14;

/// The most redirections that a call follows before it gives up.
const REDIRECTIONS: usize = 4;

/// The time for which a link without slots is kept after its last use.
const KEPT: Duration = Duration::from_secs(60);

pub(super) struct Cluster {
    pub(super) form: KeyForm,
    shared: Arc<ClusterState>,
    refresher: Background,
}

struct ClusterState {
    /// The base of every link's configuration, including the password.
    config: Config,
    settings: LinkSettings,
    table: ArcSwap<SlotTable>,
    links: Mutex<HashMap<Server, Kept>>,
    /// Notified when the table may be outdated.
    stale: Notify,
    /// The reason why there is no table.
    trouble: Mutex<Option<RedisError>>,
    /// The number of times that the table was read.
    turn: AtomicUsize,
}

struct Kept {
    link: Arc<Link>,
    used: Instant,
}

/// The master of each slot, as an index into the links.
struct SlotTable {
    slots: Box<[u16]>,
    links: Vec<Arc<Link>>,
    /// Whether a slot has no known master.
    has_gaps: bool,
}

/// A slot without a known master.
const NOBODY: u16 = u16::MAX;

impl Cluster {
    /// Creates links to the masters of the cluster that the servers of `config` belong to.
    pub(super) fn new(config: Config, settings: LinkSettings, form: KeyForm) -> Self {
        let shared = Arc::new(ClusterState {
            config,
            settings,
            table: ArcSwap::from_pointee(SlotTable::empty()),
            links: Mutex::default(),
            stale: Notify::new(),
            trouble: Mutex::default(),
            turn: AtomicUsize::new(0),
        });
        let refreshed = Arc::clone(&shared);
        Self {
            form,
            refresher: Background::new(move || Arc::clone(&refreshed).keep_fresh()),
            shared,
        }
    }

    /// Starts the task that keeps the table of slots current, unless it is running. Fails outside of a runtime.
    pub(super) fn begin(&self) -> Result<(), RedisError> {
        self.refresher.ensure()
    }

    /// Returns the reason why a master or the table of slots is missing, if one is.
    pub(super) fn problem(&self) -> Option<RedisError> {
        let table = self.shared.table.load();
        let of_a_master = table.links.iter().find_map(|link| link.problem());
        of_a_master.or_else(|| self.shared.trouble())
    }

    /// Returns the slot of a member's bucket.
    pub(super) fn slot_of(&self, member: &Member<'_>) -> u16 {
        redis_keyslot(self.form.key(member).as_bytes())
    }

    /// Returns the links to the known masters.
    pub(super) fn masters(&self) -> Vec<Arc<Link>> {
        self.shared.table.load().links.clone()
    }

    fn master(&self, server: ServerId) -> Option<Arc<Link>> {
        let table = self.shared.table.load();
        let mut links = table.links.iter();
        links.find(|link| link.health().server() == server).cloned()
    }

    /// Waits until all slots have a master that is connected.
    pub(super) async fn connected(&self) -> Result<(), RedisError> {
        self.begin()?;
        loop {
            let table = self.shared.table.load_full();
            if !table.links.is_empty() && !table.has_gaps {
                for link in &table.links {
                    link.connected().await?;
                }
                return Ok(());
            }
            if let Some(error) = self.shared.trouble().filter(RedisError::is_permanent) {
                return Err(error);
            }
            time::sleep(RECONNECT_DELAY / 10).await;
        }
    }

    /// Calls a script on the master of its slot, and follows the slot if it has moved.
    pub(super) async fn run(
        &self,
        slot: u16,
        call: &ScriptCall,
        deadline: Deadline,
    ) -> Result<ScriptAnswer, Failure> {
        self.begin()?;
        deadline.limit(self.shared.attempted()).await?;
        let table = self.shared.table.load_full();
        let Some(mut link) = table.link(slot).map(Arc::clone) else {
            self.shared.stale.notify_one();
            let nobody = || RedisError::Refused("no master has the keys' slot".to_owned());
            return Err(self.shared.trouble().unwrap_or_else(nobody).into());
        };
        let mut asking = false;
        for _ in 0..REDIRECTIONS {
            let ended = match asking {
                true => link.ask(call, deadline).await,
                false => link.run(slot, call.clone(), deadline).await,
            };
            link.health().ended(&ended);
            let failure = match ended {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            asking = matches!(failure, Failure::Ask(_));
            if !asking {
                self.shared.stale.notify_one();
            }
            let (Failure::Moved(to) | Failure::Ask(to)) = failure else {
                return Err(failure);
            };
            link = self.shared.link_to(to.server(&link.server()));
            deadline.limit(link.connected()).await??;
        }
        Err(RedisError::Refused("MOVED, again and again".to_owned()).into())
    }
}

impl Servers for Cluster {
    fn server_of(&self, member: &Member<'_>) -> ServerId {
        let table = self.shared.table.load();
        let link = table.link(self.slot_of(member));
        link.map_or(ServerId::UNKNOWN, |link| link.health().server())
    }

    fn has_decided(&self, server: ServerId, since: std::time::Instant) -> bool {
        let link = self.master(server);
        link.is_some_and(|link| link.health().has_decided(since))
    }

    fn is_current(&self, server: ServerId) -> bool {
        match server {
            ServerId::UNKNOWN => self.shared.table.load().has_gaps,
            server => self.master(server).is_some(),
        }
    }

    fn address(&self, server: ServerId) -> Option<String> {
        self.master(server).map(|link| link.server().to_string())
    }
}

impl ClusterState {
    /// Reads the table whenever it may be outdated. Retries until it succeeds.
    async fn keep_fresh(self: Arc<Self>) {
        loop {
            while !self.refresh().await {
                time::sleep(RECONNECT_DELAY / 4).await;
            }
            self.stale.notified().await;
            // Many calls notice the same change at once, so wait a little and read the table once for all of them.
            time::sleep(RECONNECT_DELAY / 4).await;
        }
    }

    /// Asks one server after another for the table, and takes the first answer.
    async fn refresh(&self) -> bool {
        let mut trouble: Option<RedisError> = None;
        let links = self.all_links();
        for link in &links {
            match link.slots().await {
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
        let has_attempted = links.iter().all(|link| link.has_attempted());
        *self.trouble.lock() = trouble.filter(|_| has_attempted);
        false
    }

    /// Returns all links, connected ones first. Each call begins with another link, because a server that is
    /// cut off from the others has an outdated table.
    fn all_links(&self) -> Vec<Arc<Link>> {
        for seed in self.config.server.hosts() {
            self.link_to(seed);
        }
        let links = self.links.lock();
        let mut links: Vec<_> = links.values().map(|kept| Arc::clone(&kept.link)).collect();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % links.len().max(1);
        links.rotate_left(turn);
        links.sort_by_key(|link| !link.is_connected());
        links
    }

    /// Waits until the first attempt to read the table has ended.
    async fn attempted(&self) {
        while self.table.load().links.is_empty() && self.trouble().is_none() {
            time::sleep(RECONNECT_DELAY / 10).await;
        }
    }

    fn trouble(&self) -> Option<RedisError> {
        self.trouble.lock().clone()
    }

    fn adopt(&self, routing: &ClusterRouting) {
        let mut table = SlotTable::empty();
        for range in routing.slots() {
            let link = self.link_to(range.primary.clone());
            table.assign(range.start, range.end, link);
        }
        table.has_gaps = table.slots.contains(&NOBODY);
        let now = Instant::now();
        self.links.lock().retain(|_, kept| {
            let listed = table.links.iter().any(|link| Arc::ptr_eq(link, &kept.link));
            listed || now.duration_since(kept.used) < KEPT
        });
        self.table.store(Arc::new(table));
        *self.trouble.lock() = None;
    }

    /// Returns the link to a server, and creates it if necessary.
    fn link_to(&self, server: Server) -> Arc<Link> {
        let used = Instant::now();
        let mut links = self.links.lock();
        let kept = links.entry(server).or_insert_with_key(|server| {
            let mut config = self.config.clone();
            config.server = ServerConfig::Centralized {
                server: server.clone(),
            };
            let link = Arc::new(Link::new(config, self.settings));
            link.begin_if_possible();
            Kept { link, used }
        });
        kept.used = used;
        Arc::clone(&kept.link)
    }
}

impl SlotTable {
    fn empty() -> Self {
        Self {
            slots: vec![NOBODY; SLOTS].into(),
            links: Vec::new(),
            has_gaps: true,
        }
    }

    fn assign(&mut self, start: u16, end: u16, link: Arc<Link>) {
        let known = self
            .links
            .iter()
            .position(|known| Arc::ptr_eq(known, &link));
        let place = known.unwrap_or_else(|| {
            self.links.push(link);
            self.links.len() - 1
        });
        let slots = self.slots.get_mut(usize::from(start)..=usize::from(end));
        let place = u16::try_from(place).unwrap_or(NOBODY);
        slots.unwrap_or_default().fill(place);
    }

    fn link(&self, slot: u16) -> Option<&Arc<Link>> {
        self.links.get(usize::from(self.slots[usize::from(slot)]))
    }
}

impl fmt::Debug for Cluster {
    /// Leaves out the configuration, because it can contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("masters", &self.masters())
            .finish_non_exhaustive()
    }
}
