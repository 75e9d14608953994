use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use tollgate::{Limit, Limiter, Limits, Transaction, transaction::Mode};

use super::{FILE, store::EmbeddedStore};
use crate::{programs, support::Folder};

/// A unit takes hours to come back, so none does while the test runs.
const REQUESTS: u32 = 100_000;
const HOURS: u32 = 600_000;
const CLIENTS: [&str; 3] = ["alice", "bob", "carol"];

/// The numbers of sent and of acknowledged requests for each client.
type Counts = BTreeMap<&'static str, (u32, u32)>;

/// After a kill, all acknowledged charges are in the file, and at most those that were sent. Each request charges two buckets in
/// one batch, so the shared bucket has as many charges as all others together.
#[tokio::test]
async fn kill_in_the_middle_of_writes_loses_nothing_and_tears_nothing() {
    let folder = Folder::new();
    let file = folder.path(FILE);
    let mut counts = Counts::new();
    for acknowledged in [1, 2, 40, 100, 257, 600] {
        spend_and_kill(&file, acknowledged, &mut counts);
        let [all, charged @ ..] = charged(&file).await;
        assert_eq!(all, charged.iter().sum::<u32>(), "a batch was torn");
        for (client, charged) in CLIENTS.iter().zip(charged) {
            let (sent, acknowledged) = counts[client];
            assert!(
                (acknowledged..=sent).contains(&charged),
                "{client}: {charged} charged, {acknowledged} acknowledged, {sent} sent"
            );
        }
    }
}

/// Lets a process spend as fast as it can, and kills it when it has acknowledged this number.
fn spend_and_kill(file: &Path, acknowledged: usize, counts: &mut Counts) {
    let mut child = start(file);
    let mut stdin = child.stdin.take().unwrap();
    // It writes until the process is gone, so the kill meets one that is busy.
    let sending = thread::spawn(move || {
        let mut sent = BTreeMap::<_, u32>::new();
        for client in CLIENTS.iter().cycle() {
            *sent.entry(*client).or_default() += 1;
            if writeln!(stdin, "{client}").is_err() {
                break;
            }
        }
        sent
    });
    let answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answers = answers.map_while(Result::ok);
    let mut acknowledge = |answer: String| {
        let (client, answer) = answer.split_once(": ").unwrap();
        assert_eq!(answer, "allowed");
        let client = CLIENTS.iter().find(|known| **known == client).unwrap();
        counts.entry(client).or_default().1 += 1;
    };
    answers
        .by_ref()
        .take(acknowledged)
        .for_each(&mut acknowledge);
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    // A line that is cut off does not count as acknowledged.
    answers
        .filter(|answer| answer.ends_with(": allowed"))
        .for_each(acknowledge);
    for (client, sent) in sending.join().unwrap() {
        counts.entry(client).or_default().0 += sent;
    }
}

fn start(file: &Path) -> Child {
    let mut command = programs::command("embedded_store");
    command
        .arg(file)
        .args([REQUESTS, HOURS].map(|n| n.to_string()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// Returns the charges of the shared bucket and of each client's.
async fn charged(file: &Path) -> [u32; 4] {
    let period = Duration::from_secs(3600) * HOURS;
    let limit = |requests| Limit::new(requests, requests, period).unwrap();
    let limits = Limits::builder()
        .limit("client", limit(REQUESTS))
        .limit("all", limit(10 * REQUESTS));
    let store = EmbeddedStore::open(file).unwrap();
    let limiter = Limiter::new(limits.build().unwrap(), store);
    let held = async |limit: &str, id: &str| {
        let probe = Transaction::new(limit, id).cost(0).mode(Mode::CheckOnly);
        limiter.check(&probe).await.unwrap().remaining().unwrap()
    };
    [
        10 * REQUESTS - held("all", "all").await,
        REQUESTS - held("client", CLIENTS[0]).await,
        REQUESTS - held("client", CLIENTS[1]).await,
        REQUESTS - held("client", CLIENTS[2]).await,
    ]
}
