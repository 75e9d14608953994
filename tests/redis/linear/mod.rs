//! Linearizability on Redis: short histories of clients of two services, which share connections and script calls, are
//! explained by some order, on each stack of wrappers. Answers that are swapped are found.

mod failover;
mod planted;

use std::{fmt::Write, ops::Range, sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};
use tollgate::backend::Backend;

use crate::{
    CLUSTER, PATIENCE, SERVER, connect,
    histories::{
        checker::History,
        clients::{Shape, Time, World},
        random::Random,
        stack::Stack,
    },
    load::wait_until,
    redis_support::Proxy,
    support::scale::scaled,
};

/// As many histories go on at the same time.
const WAVE: u64 = 64;

const SHAPES: [Shape; 3] = [Shape::Mixed, Shape::Spends, Shape::Uses];

/// The pause between two replies that are cut, in which others pass.
const CALM: Duration = Duration::from_millis(5);

/// The stores of two services.
struct Setup {
    /// A part of the ids that no other test has.
    name: &'static str,
    stores: Vec<Arc<dyn Backend>>,
    loses_answers: bool,
}

impl Setup {
    /// Each service has a connection of its own.
    async fn on(name: &'static str, urls: &[String]) -> Self {
        let stores = urls.iter().map(|url| async {
            let store: Arc<dyn Backend> = Arc::new(connect(url.clone()).await);
            store
        });
        Self {
            name,
            stores: join_all(stores).await,
            loses_answers: false,
        }
    }

    /// One history for each of these numbers.
    fn worlds(&self, (stack, shape): (Stack, Shape), seeds: Range<u64>) -> Vec<Arc<World>> {
        let time = Time::start();
        let world = |seed| {
            let random = Random::new(seed);
            let processes = u32::try_from(self.stores.len()).unwrap();
            let stores = self.stores.iter().map(Arc::clone);
            let backends = stores.map(|store| stack.around(store, processes));
            let id = format!("{}{stack:?}{shape:?}{seed}", self.name);
            let mut world = World::new((stack, shape), backends, random.clone(), id);
            if shape != Shape::Mixed {
                world = world.at(time.clone());
            }
            if self.loses_answers {
                world = world.loses_answers();
            }
            Arc::new(world)
        };
        seeds.map(world).collect()
    }

    async fn histories(&self, kind: (Stack, Shape), seeds: Range<u64>) -> Vec<History> {
        let worlds = self.worlds(kind, seeds).into_iter();
        let histories = join_all(worlds.map(World::history));
        timeout(PATIENCE, histories).await.unwrap()
    }

    /// Checks so many histories of a kind, wave after wave.
    async fn assert_linearizable(&self, kind: (Stack, Shape), count: u64) {
        for first in (0..count).step_by(usize::try_from(WAVE).unwrap()) {
            let wave = first..count.min(first + WAVE);
            assert_explained(&format!("{kind:?}"), &self.histories(kind, wave).await);
        }
    }
}

/// Panics with the calls that no order explains, if there are any.
#[track_caller]
fn assert_explained(kind: &str, histories: &[History]) {
    for history in histories {
        if let Some(events) = history.unexplained() {
            let mut text = String::new();
            for event in events {
                writeln!(text, "{event:?}").unwrap();
            }
            panic!("{kind}, {:?}: no order explains\n{text}", history.terms);
        }
    }
}

#[tokio::test]
async fn each_stack_is_linearizable_for_two_services_on_one_server() {
    let setup = Setup::on("linear", &[SERVER.url(), SERVER.url()]).await;
    for stack in Stack::ALL {
        for shape in SHAPES {
            setup
                .assert_linearizable((stack, shape), scaled(WAVE))
                .await;
        }
    }
}

#[tokio::test]
async fn each_stack_is_linearizable_for_two_services_on_a_cluster() {
    let setup = Setup::on("linear", &[CLUSTER.url(), CLUSTER.url()]).await;
    for stack in Stack::ALL {
        let kind = (stack, Shape::Mixed);
        setup.assert_linearizable(kind, scaled(WAVE)).await;
    }
}

#[tokio::test]
async fn each_stack_is_linearizable_though_replies_are_lost() {
    let proxies = [
        Proxy::start(SERVER.addr()).await,
        Proxy::start(SERVER.addr()).await,
    ];
    let mut setup = Setup::on("lost", &proxies.each_ref().map(Proxy::url)).await;
    setup.loses_answers = true;
    let cuts = async {
        loop {
            for proxy in &proxies {
                let (cut, made) = (proxy.replies_cut(), proxy.connections_made());
                proxy.cut_next_reply();
                wait_until("a reply is cut", async || proxy.replies_cut() > cut).await;
                wait_until("it is connected again", async || {
                    proxy.connections_made() > made
                })
                .await;
                sleep(CALM).await;
            }
        }
    };
    let wave = WAVE * scaled(1_u64);
    let kinds = Stack::ALL.map(|stack| (stack, Shape::Mixed));
    let checks = join_all(kinds.map(|kind| setup.assert_linearizable(kind, wave)));
    tokio::select! {
        _ = checks => {}
        () = cuts => {}
    }
    assert!(proxies.iter().all(|proxy| proxy.replies_cut() > 0));
}
