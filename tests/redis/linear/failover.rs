//! Histories during which a replica takes the place of its master.
//!
//! Replication is asynchronous, so a failover can lose what a master has answered last. Two things can be claimed. If the
//! replica has all that the master has answered, histories are linearizable as if there had been no failover. If not, the
//! new master begins in a state that the old one was in before.

use std::sync::Arc;

use tokio::{task::JoinHandle, time::timeout};

use super::{Setup, WAVE, assert_explained};
use crate::{
    PATIENCE,
    histories::{
        checker::{Answer, Event, History},
        clients::{Shape, TICKS, World},
        stack::Stack,
    },
    load::wait_until,
    redis_support::{Proxy, Server},
    support::scale::scaled,
};

/// A master, its replica, and the way of each service to the one that is the master.
struct Pair {
    master: Server,
    replica: Server,
    ways: [Proxy; 2],
}

impl Pair {
    async fn start() -> Self {
        let (master, replica) = (Server::start(), Server::start());
        let ways = [
            Proxy::start(master.addr()).await,
            Proxy::start(master.addr()).await,
        ];
        let pair = Self {
            master,
            replica,
            ways,
        };
        pair.link().await;
        pair
    }

    /// Makes the replica follow the master, and waits until it has all data.
    async fn link(&self) {
        let port = self.master.port().to_string();
        let follow = ["REPLICAOF", "127.0.0.1", &port];
        self.replica.command(&follow).expect_success();
        wait_until("the replica is linked", async || {
            self.replica.follows(&self.master)
        })
        .await;
    }

    /// Holds all calls back at the master, and waits until the replica has what was done before.
    async fn drain(&self) {
        let pause = ["CLIENT", "PAUSE", "600000", "WRITE"];
        self.master.command(&pause).expect_success();
        let offset = |server: &Server, field| server.info(field);
        wait_until("the replica has everything", async || {
            offset(&self.master, "master_repl_offset") == offset(&self.replica, "slave_repl_offset")
        })
        .await;
    }

    /// The replica is a master from now on. Nobody asks it yet.
    fn promote(&self) {
        let promote = ["REPLICAOF", "NO", "ONE"];
        self.replica.command(&promote).expect_success();
    }

    /// Leads the services to the other server. Calls that are in flight are lost.
    async fn lead_over(&mut self) {
        for way in &self.ways {
            way.refuse(true);
            way.lead_to(self.replica.addr());
        }
        for way in &self.ways {
            way.close_all().await;
        }
    }

    /// Lets services connect, and makes the old master the replica.
    async fn settle(&mut self) {
        self.ways.iter().for_each(|way| way.refuse(false));
        std::mem::swap(&mut self.master, &mut self.replica);
        self.replica
            .command(&["CLIENT", "UNPAUSE"])
            .expect_success();
        self.link().await;
    }
}

/// Histories of all stacks that go on at the same time.
struct Running {
    worlds: Vec<Arc<World>>,
    histories: Vec<JoinHandle<History>>,
}

impl Running {
    fn start(setup: &Setup, round: u64) -> Self {
        let seeds = round * WAVE / 2..(round + 1) * WAVE / 2;
        let worlds = |stack| setup.worlds((stack, Shape::Mixed), seeds.clone());
        let worlds: Vec<_> = Stack::ALL.into_iter().flat_map(worlds).collect();
        let histories = worlds
            .iter()
            .map(|world| tokio::spawn(Arc::clone(world).history()));
        Self {
            histories: histories.collect(),
            worlds,
        }
    }

    /// Waits until so many calls of each history have begun or ended, on average.
    async fn until(&self, ticks: u64) {
        let enough = ticks * self.worlds.len() as u64;
        wait_until("calls are made", async || {
            self.worlds.iter().map(|world| world.ticks()).sum::<u64>() >= enough
        })
        .await;
    }

    async fn end(self) -> Vec<History> {
        let mut histories = Vec::new();
        for history in self.histories {
            histories.push(timeout(PATIENCE, history).await.unwrap().unwrap());
        }
        histories
    }
}

/// How many histories have answers from before a failover that began at these ticks, and from after it.
fn spanning(histories: &[History], ticks: &[u64]) -> u64 {
    let spans = |(history, tick): &(&History, &u64)| {
        let answered = |event: &&Event| event.answer != Answer::Unknown;
        let answered = || history.events.iter().filter(answered);
        answered().any(|event| event.ended < **tick) && answered().any(|event| event.begun > **tick)
    };
    histories.iter().zip(ticks).filter(spans).count() as u64
}

/// Fails over in the middle of histories, again and again until enough of them have seen it.
async fn assert_linearizable(name: &'static str, loses: bool) {
    let mut pair = Pair::start().await;
    let mut setup = Setup::on(name, &pair.ways.each_ref().map(Proxy::url)).await;
    setup.loses_answers = true;
    let mut seen = 0;
    for round in 0.. {
        let running = Running::start(&setup, round);
        running.until(TICKS / 3).await;
        match loses {
            true => {
                pair.promote();
                running.until(TICKS / 2).await;
            }
            false => {
                pair.drain().await;
                pair.promote();
            }
        }
        let ticks: Vec<_> = running
            .worlds
            .iter()
            .map(|world| world.begin_failover())
            .collect();
        pair.lead_over().await;
        if loses {
            let worlds = running.worlds.iter().zip(&ticks);
            worlds.for_each(|(world, tick)| world.failed_over(*tick));
        }
        pair.settle().await;
        let histories = running.end().await;
        assert_explained(name, &histories);
        seen += spanning(&histories, &ticks);
        if seen >= scaled(100) {
            return;
        }
    }
}

#[tokio::test]
async fn each_stack_is_linearizable_though_a_replica_takes_over_that_has_all_answers() {
    assert_linearizable("kept", false).await;
}

#[tokio::test]
async fn replica_that_takes_over_without_the_last_answers_has_an_earlier_state() {
    assert_linearizable("forgotten", true).await;
}
