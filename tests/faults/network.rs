//! Faults between the stack and its server.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::{
    load::Load,
    redis_support::{Proxy, Server},
    report::{Report, always, away},
    stack::{DEADLINE, Stack},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_are_lost_are_charged_once() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    let load = Load::start(Stack::connect(proxy.url()).await);
    load.more(200).await;
    let first = Instant::now();
    for cut in 1..=15 {
        proxy.cut_next_reply();
        while proxy.replies_cut() < cut {
            sleep(Duration::from_millis(1)).await;
        }
        load.more(50).await;
    }
    let back = load.returns_after(Instant::now()).await;
    load.more(500).await;
    let report = load.stop().await;
    report.assert_in_time(&format!("replies cut, {back:?}"));
    assert!(report.without() > 0);
    report.assert_admitted(first, away);
    report.assert_none_denied_wrongly();
    report.assert_charged_once(&server);
    report.end([&server]);
}

/// Makes a server late by less than may be, in three parts of five.
async fn almost_late(deadline: Duration, calls: usize) -> (Report, Server) {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    let load = Load::start(Stack::with_deadline(proxy.url(), deadline).await);
    let delay = deadline * 3 / 5;
    proxy.delay(delay);
    load.more(calls).await;
    let report = load.stop().await;
    report.assert_in_time(&format!("late by {delay:?} of {deadline:?}"));
    report.assert_none_denied_wrongly();
    report.assert_charged_once(&server);
    (report, server)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_is_slow_but_in_time_decides_all() {
    let (report, server) = almost_late(10 * DEADLINE, 100).await;
    assert_eq!((report.without(), report.opened()), (0, 0));
    report.assert_admitted(Instant::now(), always);
    report.end([&server]);
    let begun = Instant::now();
    let (report, server) = almost_late(DEADLINE, 500).await;
    // 20 ms are left. If this machine needs more for something else, that is a failure like others.
    assert!(
        report.without() * 4 <= report.calls(),
        "{}",
        report.without()
    );
    report.assert_admitted(begun, away);
    report.end([&server]);
}

/// Makes a server late by more than may be, and in time again.
async fn late_by(delay: Duration) {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    let load = Load::start(Stack::connect(proxy.url()).await);
    load.more(500).await;
    let late = Instant::now();
    proxy.delay(delay);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(load.stack().opened(), 1, "{delay:?}");
    assert_eq!(load.stack().closed(), 0, "{delay:?}");
    proxy.delay(Duration::ZERO);
    let back = load.returns_after(Instant::now()).await;
    load.more(500).await;
    let report = load.stop().await;
    report.assert_in_time(&format!("late by {delay:?}, {back:?}"));
    report.assert_admitted(late, away);
    report.assert_none_denied_wrongly();
    report.assert_charged_once(&server);
    report.end([&server]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_is_too_late_is_done_without() {
    late_by(Duration::from_millis(60)).await;
    late_by(Duration::from_millis(500)).await;
}
