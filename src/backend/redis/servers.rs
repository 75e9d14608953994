//! The servers of a backend: a link to its only server or to each master of a cluster, and the table that maps slots to masters.
//!
//! A failure of one master does not affect the others, and nothing is sent twice.

use std::{
    collections::HashMap,
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::SystemTime,
};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::watch,
    task::JoinHandle,
    time::{self, Instant},
};

use super::{
    address::Target,
    connection::PATIENCE,
    error::{Failure, RedisError},
    keys::KeyForm,
    link::{Link, RECONNECT_DELAY},
    multi_slot::SlotServers,
    protocol::Call,
    resp::RedisValue,
    server_set::{ServerAddress, ServerSet},
    tags::{SLOTS, slot_of},
};
use crate::{
    batch::{Batch, Member},
    clock::Timestamp,
    decision::Answer,
    random,
};

/// How often a call is sent before it fails, if its slot has moved each time, or the server has shown another time.
const ATTEMPTS: usize = 4;

pub(super) struct Servers {
    /// The base of every link's configuration, including the password.
    target: Target,
    form: KeyForm,
    /// Where the tasks run.
    pub(super) runtime: Handle,
    /// The microseconds by which the servers' clock is ahead of ours, according to the latest answer. Only calendars need it.
    ahead: AtomicI64,
    table: watch::Sender<SlotTable>,
    /// The links of a cluster: to its masters, and to the servers of the URL.
    links: Mutex<HashMap<ServerAddress, Arc<Link>>>,
    refresher: Mutex<Option<JoinHandle<()>>>,
    turn: Mutex<()>,
}

/// The table of slots, and the reason why it could not be read. A single server has all keys in one slot.
#[derive(Clone, Default)]
struct SlotTable {
    /// The master of each slot, as far as they are known.
    slots: Arc<[Option<Arc<Link>>]>,
    masters: Vec<Arc<Link>>,
    trouble: Option<RedisError>,
}

impl Servers {
    /// Starts to connect, in a runtime.
    pub(super) fn start(target: Target, form: KeyForm, runtime: Handle) -> Arc<Self> {
        let is_clustered = target.servers.is_cluster();
        let mut table = SlotTable::default();
        if !is_clustered {
            let link = Arc::new(Link::new(target.clone(), &runtime, || ()));
            let slots = if target.servers.has_slots() { SLOTS } else { 1 };
            table.slots = vec![Some(Arc::clone(&link)); slots.into()].into();
            table.masters.push(link);
        }
        let servers = Arc::new(Self {
            target,
            form,
            runtime,
            ahead: AtomicI64::new(0),
            table: watch::Sender::new(table),
            links: Mutex::default(),
            refresher: Mutex::default(),
            turn: Mutex::default(),
        });
        if is_clustered {
            servers.refresh_soon();
        }
        servers
    }

    /// Waits until all slots have a master that is connected.
    pub(super) async fn connected(&self) -> Result<(), RedisError> {
        let mut table = self.table.subscribe();
        let is_settled = |table: &SlotTable| match &table.trouble {
            Some(error) => error.is_permanent(),
            None => !table.masters.is_empty() && table.slots.iter().all(Option::is_some),
        };
        let table = table.wait_for(is_settled).await;
        let SlotTable {
            masters, trouble, ..
        } = table.map(|table| table.clone()).unwrap_or_default();
        for link in masters {
            link.connected().await?;
        }
        trouble.map_or(Ok(()), Err)
    }

    /// Returns the reason why a master or the table is missing, if one is.
    pub(super) fn problem(&self) -> Option<RedisError> {
        let table = self.table.borrow();
        let of_a_master = table.masters.iter().find_map(|link| link.problem());
        of_a_master.or_else(|| table.trouble.clone())
    }

    pub(super) fn is_open(&self) -> bool {
        let table = self.table.borrow();
        table.masters.iter().any(|link| link.is_open())
    }

    fn slot(&self, key: &[u8]) -> u16 {
        if self.target.servers.has_slots() {
            slot_of(key)
        } else {
            0
        }
    }

    /// Returns the master of a slot, once the table is known.
    async fn master(self: &Arc<Self>, slot: u16, deadline: Instant) -> Result<Arc<Link>, Failure> {
        let of_slot = |table: &SlotTable| table.slots.get(usize::from(slot)).cloned().flatten();
        let known = of_slot(&self.table.borrow());
        if let Some(link) = known {
            return Ok(link);
        }
        self.refresh_soon();
        let mut table = self.table.subscribe();
        let known = table.wait_for(|table| !table.slots.is_empty());
        match time::timeout_at(deadline, known).await {
            Ok(Ok(table)) => of_slot(&table).ok_or_else(|| {
                RedisError::refused("CLUSTERDOWN no master has the keys' slot").into()
            }),
            _ => Err(self.problem().unwrap_or(RedisError::Timeout).into()),
        }
    }

    /// Starts a task that reads the table until it is known, unless one is running.
    fn refresh_soon(self: &Arc<Self>) {
        let mut refresher = self.refresher.lock();
        if refresher.as_ref().is_none_or(JoinHandle::is_finished) {
            let servers = Arc::downgrade(self);
            *refresher = Some(self.runtime.spawn(async move {
                let mut is_known = false;
                while let (false, Some(servers)) = (is_known, servers.upgrade()) {
                    is_known = servers.refresh().await;
                    drop(servers);
                    // The pause joins the calls that notice the same change: they start no further task meanwhile.
                    time::sleep(RECONNECT_DELAY / 4).await;
                }
            }));
        }
    }

    /// Asks one server after another for the table, and takes the first answer. Connected ones are first. Their order differs
    /// from one time to the next, because a server that is cut off from the others has an outdated table.
    async fn refresh(self: &Arc<Self>) -> bool {
        let seeds = self.target.servers.all().iter();
        seeds.for_each(|seed| drop(self.link_to(seed.clone())));
        let mut links: Vec<_> = self.links.lock().values().cloned().collect();
        links.sort_by_cached_key(|link| (link.problem().is_some(), random::number()));
        let mut trouble = None::<RedisError>;
        for link in links {
            match slot_ranges(&link).await {
                Ok(ranges) if !ranges.is_empty() => {
                    self.adopt(ranges, &link);
                    return true;
                }
                Ok(_) => tracing::debug!("a server has an empty table of slots"),
                Err(error) => trouble = trouble.filter(RedisError::is_permanent).or(Some(error)),
            }
        }
        self.table.send_modify(|table| table.trouble = trouble);
        false
    }

    /// Takes over the table that a server has sent.
    fn adopt(self: &Arc<Self>, ranges: Vec<SlotRange>, by: &Link) {
        let mut slots = vec![None; SLOTS.into()];
        let mut masters = HashMap::new();
        for range in ranges {
            let master = announced(&range.host, range.port, by);
            let link = self.link_to(master.clone());
            let slots = slots.get_mut(range.slots);
            slots.unwrap_or_default().fill(Some(Arc::clone(&link)));
            masters.insert(master, link);
        }
        let seeds = self.target.servers.all();
        let is_needed =
            |server: &ServerAddress| masters.contains_key(server) || seeds.contains(server);
        self.links.lock().retain(|server, _| is_needed(server));
        self.table.send_replace(SlotTable {
            slots: slots.into(),
            masters: masters.into_values().collect(),
            trouble: None,
        });
    }

    /// Returns the link to a server of a cluster, and creates it if necessary.
    fn link_to(self: &Arc<Self>, server: ServerAddress) -> Arc<Link> {
        let mut links = self.links.lock();
        let link = links.entry(server).or_insert_with_key(|server| {
            let mut target = self.target.clone();
            let server = server.clone();
            target.servers = ServerSet::Cluster(vec![server.clone()]);
            let servers = Arc::downgrade(self);
            // After a master is lost, another server may take over its slots.
            let on_loss = move || {
                let Some(servers) = servers.upgrade() else {
                    return;
                };
                let is_it = |master: &Arc<Link>| master.server == server;
                if servers.table.borrow().masters.iter().any(is_it) {
                    servers.refresh_soon();
                }
            };
            Arc::new(Link::new(target, &self.runtime, on_loss))
        });
        Arc::clone(link)
    }
}

impl SlotServers for Servers {
    fn runtime(&self) -> &Handle {
        &self.runtime
    }

    fn turn(&self) -> &Mutex<()> {
        &self.turn
    }

    fn slot_of_member(&self, member: &Member<'_>) -> u64 {
        if self.target.servers.has_slots() {
            slot_of(self.form.key(member).as_bytes()).into()
        } else {
            0
        }
    }

    /// If the slot has moved, follows it to its new master.
    async fn run(
        self: &Arc<Self>,
        batch: &Batch<'_>,
        deadline: Instant,
    ) -> Result<Vec<Answer>, Failure> {
        let mut target = None;
        let mut asking = false;
        let mut attempts = ATTEMPTS;
        loop {
            attempts -= 1;
            let ours = || Timestamp::from(SystemTime::now()).as_micros();
            let theirs = || ours().saturating_add_signed(self.ahead.load(Ordering::Relaxed));
            let around = || batch.now.map_or_else(theirs, Timestamp::as_micros);
            let call = Call::new(batch, &self.form, around);
            let slot = self.slot(call.key());
            let link = match target.take() {
                Some(link) => link,
                None => self.master(slot, deadline).await?,
            };
            let reply = link.run(slot, call, asking, deadline).await;
            let failure = match reply.and_then(|reply| reply.answers(batch)) {
                Ok(answers) => return Ok(answers),
                Err(failure) => failure,
            };
            asking = matches!(failure, Failure::Redirected { asking: true, .. });
            let has_moved = matches!(failure, Failure::Redirected { asking: false, .. });
            let is_clustered = self.target.servers.is_cluster();
            if is_clustered && (has_moved || !failure.is_answer()) {
                self.refresh_soon();
            }
            match failure {
                Failure::Clock(time) if attempts > 0 => {
                    let ahead = time.wrapping_sub(ours()).cast_signed();
                    self.ahead.store(ahead, Ordering::Relaxed);
                }
                Failure::Redirected { host, port, .. } if is_clustered && attempts > 0 => {
                    target = Some(self.link_to(announced(&host, port, &link)));
                }
                failure => return Err(failure),
            }
        }
    }
}

/// Returns a server as another one announces it. If the host is missing or unknown, it is the host at which the announcing server
/// was reached.
fn announced(host: &str, port: u16, by: &Link) -> ServerAddress {
    let host = match (host, &by.server) {
        ("" | "?", ServerAddress::Tcp { host, .. }) => Arc::clone(host),
        _ => host.into(),
    };
    ServerAddress::Tcp { host, port }
}

/// Some slots, and their master.
struct SlotRange {
    slots: RangeInclusive<usize>,
    /// Empty if it is the server that was asked.
    host: String,
    port: u16,
}

impl SlotRange {
    /// Reads a part of the table: the first and the last slot, the master and the replicas.
    fn read(part: &RedisValue) -> Option<Self> {
        let [
            RedisValue::Integer(first),
            RedisValue::Integer(last),
            master,
            ..,
        ] = part.as_array()?
        else {
            return None;
        };
        let [host, RedisValue::Integer(port), ..] = master.as_array()? else {
            return None;
        };
        Some(Self {
            slots: usize::try_from(*first).ok()?..=usize::try_from(*last).ok()?,
            host: host.as_str().unwrap_or_default().to_owned(),
            port: u16::try_from(*port).ok()?,
        })
    }
}

/// Asks a server for the table of slots.
async fn slot_ranges(link: &Link) -> Result<Vec<SlotRange>, RedisError> {
    let slots = [RedisValue::from_static_str("SLOTS")];
    let table = link.connection()?.send("CLUSTER", &slots, false, PATIENCE);
    let server = ServerSet::One(link.server.clone());
    let refused = |failure| RedisError::connecting(&failure, "CLUSTER SLOTS", &server);
    let table = table.await.map_err(refused)?;
    let ranges = table
        .as_array()
        .unwrap_or_default()
        .iter()
        .map(SlotRange::read);
    let ranges = ranges.collect::<Option<_>>();
    ranges.ok_or_else(|| RedisError::Garbled(format!("{table:?}")))
}
