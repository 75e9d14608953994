//! A cluster of three masters, each with a replica.

use std::ops::{Deref, RangeInclusive};

use super::{
    eventually::eventually,
    server::{Server, together},
};

const MASTERS: usize = 3;
const SLOTS: u16 = 16_384;

/// The time without a message after which a node counts as failed, in milliseconds: while a node is being replaced, and otherwise.
const HASTY: &str = "1000";
const CALM: &str = "120000";

/// More keys than any slot has.
const ALL_KEYS: &str = "1000000";

/// Six servers, killed when dropped.
#[derive(Debug)]
pub(crate) struct Cluster {
    nodes: Vec<Node>,
}

impl Cluster {
    /// Starts the cluster and waits until each node finds it whole and each replica is linked. It takes more than two seconds,
    /// during which Redis does not let a new master serve.
    pub(crate) fn start() -> Self {
        let nodes = together(2 * MASTERS, Node::start);
        let cluster = Self { nodes };
        cluster.introduce();
        cluster.assign();
        cluster.wait_until_settled();
        cluster.calm();
        cluster
    }

    /// Lets each node meet each other one, because gossip is slow. On a busy machine, a handshake can take too long and is then
    /// given up, so the nodes meet again from time to time.
    fn introduce(&self) {
        for (index, node) in self.nodes.iter().enumerate() {
            // The epochs are distinct, so that there are no conflicts between nodes to resolve.
            node.exec(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        let mut looks = 0;
        eventually("all nodes know each other", || {
            if looks % 400 == 0 {
                for (index, node) in self.nodes.iter().enumerate() {
                    self.nodes[..index]
                        .iter()
                        .for_each(|other| node.meet(other));
                }
            }
            looks += 1;
            self.nodes.iter().all(|node| self.view(node).is_some())
        });
    }

    /// Gives the slots to the first three nodes, and makes each of the others a replica of one of them.
    fn assign(&self) {
        let (masters, replicas) = self.nodes.split_at(MASTERS);
        let share = usize::from(SLOTS).div_ceil(MASTERS);
        for (index, (master, replica)) in masters.iter().zip(replicas).enumerate() {
            let slots = (0..SLOTS).map(|slot| slot.to_string());
            let slots: Vec<_> = slots.skip(index * share).take(share).collect();
            let mut add = vec!["CLUSTER", "ADDSLOTS"];
            add.extend(slots.iter().map(String::as_str));
            master.exec(&add);
            replica.exec(&["CLUSTER", "REPLICATE", &master.id]);
        }
    }

    /// `redis-cluster://127.0.0.1:PORT?node=…`, with all nodes.
    pub(crate) fn url(&self) -> String {
        let others = self.nodes[1..].iter().map(|node| node.addr().to_string());
        let others: Vec<_> = others.collect();
        let first = self.nodes[0].addr();
        format!("redis-cluster://{first}?node={}", others.join("&node="))
    }

    /// All nodes, whether up or down: at first three masters, then their replicas.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The masters at present.
    pub(crate) fn masters(&self) -> Vec<&Node> {
        self.up().filter(|node| node.is_master()).collect()
    }

    /// The replicas at present.
    pub(crate) fn replicas(&self) -> Vec<&Node> {
        self.up().filter(|node| !node.is_master()).collect()
    }

    /// The replica of a master.
    pub(crate) fn replica_of(&self, master: &Node) -> &Node {
        let seen = master.view().into_iter();
        let mut replicas = seen.filter(|seen| seen.master == master.id);
        let up = replicas.find_map(|seen| self.up().find(|node| node.id == seen.id));
        up.expect("the master has a replica that is up")
    }

    /// The slot of a client's buckets by default: the middle of the 64th of all slots that contains the slot of the client's own
    /// tag.
    pub(crate) fn slot_of_client(&self, id: &str) -> u16 {
        const PART: u16 = SLOTS / 64;
        self.slot_of(id) / PART * PART + PART / 2
    }

    /// The slot of a key.
    pub(crate) fn slot_of(&self, key: &str) -> u16 {
        let node = self.up().next().expect("a node is up");
        node.query(&["CLUSTER", "KEYSLOT", key])
    }

    /// Returns the master of a slot, on which all nodes agree.
    pub(crate) fn owner(&self, slot: u16) -> &Node {
        let node = self.up().next().expect("a node is up");
        let mut view = node.view().into_iter();
        let owner = view.find(|seen| seen.has(slot)).expect("somebody has it");
        let mut nodes = self.nodes.iter();
        let node = nodes.find(|node| node.id == owner.id);
        node.expect("it is one of ours")
    }

    /// Moves a slot with all its keys.
    pub(crate) fn migrate(&self, slot: u16, to: &Node) {
        self.begin_migration(slot, to);
        self.move_keys(slot, to);
        self.finish_migration(slot, to);
    }

    /// Opens a slot on both sides. From now on, its owner answers requests for keys that it does not have with `ASK`, which
    /// redirects to `to`.
    pub(crate) fn begin_migration(&self, slot: u16, to: &Node) {
        let from = self.owner(slot);
        let slot = slot.to_string();
        to.exec(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from.id]);
        from.exec(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to.id]);
    }

    /// Moves all keys of an open slot.
    pub(crate) fn move_keys(&self, slot: u16, to: &Node) {
        let from = self.owner(slot);
        let keys: Vec<String> =
            from.query(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), ALL_KEYS]);
        for key in keys {
            from.hand_over(&key, to);
        }
    }

    /// Moves one key of an open slot.
    pub(crate) fn move_key(&self, key: &str, to: &Node) {
        let from = self.owner(self.slot_of(key));
        from.hand_over(key, to);
    }

    /// Gives an open slot to its new owner, and waits until all nodes know it.
    pub(crate) fn finish_migration(&self, slot: u16, to: &Node) {
        let number = slot.to_string();
        to.exec(&["CLUSTER", "SETSLOT", &number, "NODE", &to.id]);
        for master in self.masters() {
            master.exec(&["CLUSTER", "SETSLOT", &number, "NODE", &to.id]);
        }
        self.wait_until_settled();
        assert_eq!(self.owner(slot).id, to.id);
    }

    /// Kills a master, waits until the others have elected its replica, and returns that. Writes that have not reached the replica
    /// are lost, as in production.
    pub(crate) fn fail_over(&self, master: &Node) -> &Node {
        let replica = self.replica_of(master);
        self.hasten(replica);
        master.kill();
        self.wait_until_replaced(master, replica);
        self.calm();
        replica
    }

    /// Kills a master that no replica replaces, and waits until the others count it as failed.
    pub(crate) fn lose(&self, master: &Node) {
        self.up().for_each(|node| node.hold_elections(true));
        self.set_timeout(HASTY);
        master.kill();
        eventually("the master counts as failed", || {
            self.up().all(|node| {
                let mut seen = node.view().into_iter();
                seen.any(|seen| seen.id == master.id && seen.failed)
            })
        });
        self.set_timeout(CALM);
    }

    /// From now on, a node without a message for a second counts as failed, and this replica may replace its master. No other
    /// replica may, because a slow machine makes other nodes silent, too.
    pub(crate) fn hasten(&self, replica: &Node) {
        for other in self.up().filter(|node| node.id != replica.id) {
            other.hold_elections(true);
        }
        self.set_timeout(HASTY);
    }

    /// From now on, nodes are only replaced on command, however slow the machine is.
    pub(crate) fn calm(&self) {
        self.set_timeout(CALM);
        self.up().for_each(|node| node.hold_elections(false));
    }

    fn set_timeout(&self, millis: &str) {
        for node in self.up() {
            node.configure("cluster-node-timeout", millis);
        }
    }

    /// Lets a master and its replica exchange their roles, as for maintenance, and returns the new master.
    pub(crate) fn switch_over(&self, master: &Node) -> &Node {
        let replica = self.replica_of(master);
        replica.exec(&["CLUSTER", "FAILOVER"]);
        self.wait_until_replaced(master, replica);
        replica
    }

    /// Starts a node again and waits until it is part of the cluster.
    pub(crate) fn restart(&self, node: &Node) {
        node.restart();
        self.wait_until_settled();
        self.calm();
    }

    fn wait_until_replaced(&self, old: &Node, new: &Node) {
        eventually("the replica has become the master", || {
            self.up().map(Node::view).all(|view| {
                let mut masters = view.iter().filter(|seen| !seen.slots.is_empty());
                masters.clone().any(|seen| seen.id == new.id)
                    && masters.all(|seen| seen.id != old.id)
            })
        });
        self.wait_until_settled();
    }

    /// Waits until all nodes that are up agree about all others that are, and all replicas are
    /// linked.
    pub(crate) fn wait_until_settled(&self) {
        eventually("the cluster is whole", || {
            let mut views = self.up().map(|node| self.view(node));
            let first = views.next().expect("a node is up");
            let agree = first.is_some() && views.all(|view| view == first);
            agree
                && self
                    .up()
                    .all(|node| node.is_whole() && self.has_its_role(node))
        });
    }

    /// Returns what a node knows about the nodes that are up, if it is connected to all of them.
    fn view(&self, node: &Node) -> Option<Vec<Seen>> {
        let mut view = node.view();
        view.retain(|seen| seen.linked && self.up().any(|node| node.id == seen.id));
        view.sort_by(|a, b| a.id.cmp(&b.id));
        (view.len() == self.up().count()).then_some(view)
    }

    fn has_its_role(&self, node: &Node) -> bool {
        let mut up = self.up();
        node.is_master() || up.any(|master| master.is_master() && node.follows(master))
    }

    fn up(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.is_up())
    }
}

/// A server of a cluster.
#[derive(Debug)]
pub(crate) struct Node {
    server: Server,
    id: String,
}

impl Node {
    fn start() -> Self {
        let server = Server::start_with(&[
            "--cluster-enabled",
            "yes",
            "--cluster-announce-ip",
            "127.0.0.1",
            "--cluster-node-timeout",
            HASTY,
            "--cluster-replica-validity-factor",
            "0",
            // No replica changes its master, and no master becomes a replica because its last slot has moved.
            "--cluster-allow-replica-migration",
            "no",
            "--cluster-replica-no-failover",
            "yes",
        ]);
        let id = server.query(&["CLUSTER", "MYID"]);
        Self { server, id }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Makes another node part of the cluster.
    pub(crate) fn meet(&self, other: &Self) {
        let port = other.port().to_string();
        self.exec(&["CLUSTER", "MEET", "127.0.0.1", &port]);
    }

    /// Sets whether it stays a replica even if its master fails.
    pub(crate) fn hold_elections(&self, hold: bool) {
        let hold = if hold { "yes" } else { "no" };
        self.configure("cluster-replica-no-failover", hold);
    }

    pub(crate) fn is_whole(&self) -> bool {
        let state: String = self.query(&["CLUSTER", "INFO"]);
        state.contains("cluster_state:ok")
    }

    fn view(&self) -> Vec<Seen> {
        let nodes: String = self.query(&["CLUSTER", "NODES"]);
        nodes.lines().map(Seen::parse).collect()
    }

    fn hand_over(&self, key: &str, to: &Self) {
        let port = to.port().to_string();
        self.exec(&["MIGRATE", "127.0.0.1", &port, key, "0", "60000"]);
    }
}

impl Deref for Node {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// What a node knows about another one, or about itself.
#[derive(Debug, PartialEq)]
struct Seen {
    id: String,
    /// The id of its master, or `-`.
    master: String,
    /// Whether it is part of the cluster and connected.
    linked: bool,
    /// Whether most masters have found it down.
    failed: bool,
    slots: Vec<RangeInclusive<u16>>,
}

impl Seen {
    /// Reads a line of `CLUSTER NODES`: id, address, flags, master, ping, pong, epoch, link and
    /// slots, of which open ones are in brackets.
    fn parse(line: &str) -> Self {
        let fields: Vec<_> = line.split(' ').collect();
        let closed = fields[8..].iter().filter(|range| !range.starts_with('['));
        let slots = closed.map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let bound = |text: &str| text.parse().expect("a slot");
            bound(first)..=bound(last)
        });
        let flags: Vec<_> = fields[2].split(',').collect();
        let lost = ["handshake", "fail", "fail?"];
        Self {
            id: fields[0].to_owned(),
            master: fields[3].to_owned(),
            linked: fields[7] == "connected" && !lost.iter().any(|flag| flags.contains(flag)),
            failed: flags.contains(&"fail"),
            slots: slots.collect(),
        }
    }

    fn has(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }
}
