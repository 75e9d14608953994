//! The network between processes and servers, and all that is on the way.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::oneshot;
use tollgate::{
    decision::Outcome,
    transaction::{Batch, Operation, OwnedBatch},
};

use crate::{
    ledger::{Bucket, Charges, Ledger, bucket_of},
    random::Random,
    server::{Health, Refusal, Server},
};

/// The way between a process and a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// The shortest and the longest time that a message takes, in microseconds.
    pub(crate) latency: (u64, u64),
    /// Of 1,000 requests and of 1,000 replies, how many are lost.
    pub(crate) losses: (u64, u64),
    /// Until then, nothing arrives.
    pub(crate) cut_until: u64,
}

impl Way {
    pub(crate) const GOOD: Self = Self {
        latency: (200, 3_000),
        losses: (0, 0),
        cut_until: 0,
    };
}

pub(crate) type Answer = Result<Outcome, Refusal>;

/// An answer, and what the store has charged for it.
pub(crate) type Delivered = (Answer, Charges);

struct Request {
    process: usize,
    server: usize,
    batch: OwnedBatch,
    answer: oneshot::Sender<Delivered>,
}

enum Message {
    Request(Request),
    Reply {
        process: usize,
        server: usize,
        to: oneshot::Sender<Delivered>,
        answer: Box<Answer>,
        charges: Charges,
    },
}

/// Servers, the ways to them, and messages.
pub(crate) struct Network {
    pub(crate) servers: Vec<Server>,
    pub(crate) ledger: Ledger,
    /// For each process, the way to each server.
    pub(crate) ways: Vec<Vec<Way>>,
    /// For each process, when it last received a decision of each server.
    decided: Vec<Vec<Option<Instant>>>,
    /// The messages on the way, by the time of their arrival.
    messages: BTreeMap<(u64, u64), Message>,
    /// The requests that hung servers have read.
    unread: Vec<Request>,
    /// The callers that nobody answers.
    silent: Vec<oneshot::Sender<Delivered>>,
    sent: u64,
    numbers: u32,
    random: Random,
    /// When units were given back, by which process, and to which bucket: to all of them if a server was replaced.
    pub(crate) given_back: Vec<(u64, Option<usize>, Option<Bucket>)>,
    /// When processes stood still.
    pub(crate) pauses: Vec<(usize, u64, u64)>,
}

pub(crate) type SharedNetwork = Arc<Mutex<Network>>;

pub(crate) fn lock(network: &SharedNetwork) -> MutexGuard<'_, Network> {
    network.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Network {
    pub(crate) fn new(processes: usize, servers: usize, lines: Vec<u32>, random: Random) -> Self {
        let numbers = 1..=u32::try_from(servers).expect("there are few servers");
        Self {
            servers: numbers.clone().map(Server::new).collect(),
            ledger: Ledger::new(lines),
            ways: vec![vec![Way::GOOD; servers]; processes],
            decided: vec![vec![None; servers]; processes],
            messages: BTreeMap::new(),
            unread: Vec::new(),
            silent: Vec::new(),
            sent: 0,
            numbers: *numbers.end(),
            random,
            given_back: Vec::new(),
            pauses: Vec::new(),
        }
    }

    /// Returns the server that has the bucket of an id.
    pub(crate) fn server_of(&self, id: &str) -> usize {
        let sum: usize = id.bytes().map(usize::from).sum();
        sum % self.servers.len()
    }

    /// Returns whether a process has received a decision of a server since an instant.
    pub(crate) fn has_decided(&self, process: usize, number: u32, since: Instant) -> bool {
        let server = self
            .servers
            .iter()
            .position(|server| server.number == number);
        let decided = server.and_then(|server| self.decided[process][server]);
        decided.is_some_and(|at| at >= since)
    }

    /// Sends a call, and returns where its answer arrives.
    pub(crate) fn send(
        &mut self,
        now: u64,
        process: usize,
        server: usize,
        batch: &Batch<'_>,
    ) -> oneshot::Receiver<Delivered> {
        let (answer, receiver) = oneshot::channel();
        let request = Request {
            process,
            server,
            batch: OwnedBatch::from(batch),
            answer,
        };
        let way = self.ways[process][server];
        if way.cut_until > now || self.random.below(1000) < way.losses.0 {
            request
                .batch
                .as_batch(|batch| self.ledger.not_executed(batch));
            // Nobody answers, and the connection stays open.
            self.silent.push(request.answer);
        } else {
            self.post(now, way, Message::Request(request));
        }
        receiver
    }

    fn post(&mut self, now: u64, way: Way, message: Message) {
        let latency = self.random.within(way.latency.0, way.latency.1);
        self.sent += 1;
        self.messages.insert((now + latency, self.sent), message);
    }

    /// Returns when the next message arrives.
    pub(crate) fn next_arrival(&self) -> Option<u64> {
        self.messages.keys().next().map(|(at, _)| *at)
    }

    /// Lets everything arrive that is due. Returns the processes that have received an answer.
    pub(crate) fn deliver(&mut self, until: u64) -> Vec<usize> {
        let mut answered = Vec::new();
        while let Some(((at, _), message)) = self.pop_due(until) {
            match message {
                Message::Request(request) => self.arrive(at, request),
                Message::Reply {
                    process,
                    server,
                    to,
                    answer,
                    charges,
                } => {
                    if answer.is_ok() {
                        self.decided[process][server] = Some(Instant::now());
                    }
                    match to.send((*answer, charges)) {
                        Ok(()) => answered.push(process),
                        Err((_, charges)) => self.ledger.unheard(charges),
                    }
                }
            }
        }
        answered
    }

    fn pop_due(&mut self, until: u64) -> Option<((u64, u64), Message)> {
        let first = self.messages.first_entry()?;
        (first.key().0 <= until).then(|| first.remove_entry())
    }

    fn arrive(&mut self, at: u64, request: Request) {
        if self.servers[request.server].health == Health::Hung {
            self.unread.push(request);
            return;
        }
        let Request {
            process,
            server,
            batch,
            answer: to,
        } = request;
        let (answer, charges) = self.servers[server].decide(at, &batch, &mut self.ledger);
        batch.as_batch(|batch| self.note_returns(at, process, batch));
        let way = self.ways[process][server];
        if way.cut_until > at || self.random.below(1000) < way.losses.1 {
            self.ledger.unheard(charges);
            self.silent.push(to);
            return;
        }
        let reply = Message::Reply {
            process,
            server,
            to,
            answer: Box::new(answer),
            charges,
        };
        self.post(at, way, reply);
    }

    fn note_returns(&mut self, at: u64, process: usize, batch: &Batch<'_>) {
        if matches!(batch.operation, Operation::Refund | Operation::Reset) {
            let buckets = batch.members.iter().map(bucket_of);
            let given_back = buckets.map(|bucket| (at, Some(process), Some(bucket)));
            self.given_back.extend(given_back);
        }
    }

    /// Lets a server that hung go on.
    pub(crate) fn go_on(&mut self, now: u64, server: usize) {
        self.servers[server].health = Health::Up;
        let (read, unread): (Vec<_>, Vec<_>) = std::mem::take(&mut self.unread)
            .into_iter()
            .partition(|request| request.server == server);
        self.unread = unread;
        for request in read {
            self.arrive(now, request);
        }
    }

    /// Closes the connections to a server: what is on the way gets no answer.
    pub(crate) fn disconnect(&mut self, server: usize) {
        let messages = std::mem::take(&mut self.messages);
        for (key, message) in messages {
            match message {
                Message::Request(request) if request.server == server => {
                    request
                        .batch
                        .as_batch(|batch| self.ledger.not_executed(batch));
                    let _ = request.answer.send((Err(Refusal::Lost), Charges::new()));
                }
                Message::Reply {
                    server: from,
                    to,
                    charges,
                    ..
                } if from == server => {
                    self.ledger.unheard(charges);
                    let _ = to.send((Err(Refusal::Lost), Charges::new()));
                }
                other => drop(self.messages.insert(key, other)),
            }
        }
        let (gone, unread): (Vec<_>, Vec<_>) = std::mem::take(&mut self.unread)
            .into_iter()
            .partition(|request| request.server == server);
        self.unread = unread;
        for request in gone {
            request
                .batch
                .as_batch(|batch| self.ledger.not_executed(batch));
            let _ = request.answer.send((Err(Refusal::Lost), Charges::new()));
        }
    }

    /// Returns the number of a server that was not there before.
    pub(crate) fn new_number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }
}
