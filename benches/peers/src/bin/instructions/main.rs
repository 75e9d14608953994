//! Counts the instructions of one decision, and of one request through a layer. callgrind gives the same numbers on
//! each run. Prints a table with the peers, and fails if a row exceeds its limit. The limits are the reached numbers
//! with a margin of one or two per cent. The goals are those of the design.
//!
//! ```console
//! $ cargo run --release -p tollgate-peers --bin instructions
//! ```

mod cases;
mod count;

use std::process::ExitCode;

use self::{cases::Case, count::count};

/// A row of the table: a case, the case to subtract from it, its peer, its limit and its goal.
struct Row {
    what: &'static str,
    case: Case,
    over: Option<Case>,
    peer: Option<Case>,
    most: Option<u64>,
    goal: Option<u64>,
}

const ROWS: [Row; 29] = [
    row("`Limiter`, by handle", Case::Handle)
        .beside(Case::Governor)
        .at_most(575)
        .goal(450),
    row("`Limiter`, by name", Case::Name)
        .beside(Case::Governor)
        .at_most(570)
        .goal(600),
    row("`MemoryBackend` alone", Case::Backend)
        .beside(Case::Governor)
        .at_most(350)
        .goal(320),
    row("layer, no headers", Case::Plain)
        .over(Case::Bare)
        .beside(Case::PeerPlain)
        .at_most(1325)
        .goal(1250),
    row("layer, request extension", Case::Extension).over(Case::Bare),
    row("layer, headers (the default)", Case::Default)
        .over(Case::Bare)
        .beside(Case::PeerHeaders)
        .at_most(3430)
        .goal(2300),
    row("layer, exact headers", Case::ExactHeaders).over(Case::Bare),
    row("layer, `X-RateLimit-*`", Case::XRateLimit).over(Case::Bare),
    row(
        "the default, with a matched path, five headers, and a content type in the response",
        Case::Realistic,
    )
    .over(Case::BareRealistic)
    .beside(Case::PeerRealistic),
    row("denied, default, total", Case::Denied)
        .beside(Case::PeerDenied)
        .at_most(6720)
        .goal(6300),
    row("two limits by name", Case::Names(2))
        .at_most(1200)
        .goal(1200),
    row("four limits by name", Case::Names(4))
        .at_most(2010)
        .goal(2300),
    row("layer with two rules, no headers", Case::PlainRules(2))
        .over(Case::Bare)
        .at_most(1940)
        .goal(1900),
    row("layer with four rules, no headers", Case::PlainRules(4))
        .over(Case::Bare)
        .at_most(2860)
        .goal(3500),
    row("layer with two rules, default", Case::Rules(2))
        .over(Case::Bare)
        .at_most(5720)
        .goal(5700),
    row("layer with four rules, default", Case::Rules(4))
        .over(Case::Bare)
        .at_most(7780)
        .goal(8700),
    row(
        "layer with four rules, default, denied by the last, total",
        Case::DeniedRules(4),
    )
    .at_most(9980),
    row("layer with a quota, no headers", Case::PlainQuota)
        .over(Case::Bare)
        .at_most(1380)
        .goal(1400),
    row("layer with a window, no headers", Case::PlainWindow)
        .over(Case::Bare)
        .at_most(2180)
        .goal(2200),
    row("layer with tiers, no headers", Case::PlainTiers)
        .over(Case::Bare)
        .at_most(2660)
        .goal(3000),
    row("tiers through `Limiter`, by handle", Case::Tiers).at_most(2210),
    row("a window through `Limiter`, by handle", Case::Window).at_most(1575),
    row("a permit taken and given back, by `enter`", Case::Permit).at_most(4820),
    row(
        "a permit taken and given back, by its receipt",
        Case::PermitReceipt,
    )
    .at_most(3360),
    row("layer with permits, no headers", Case::PlainPermits)
        .over(Case::Bare)
        .at_most(5700),
    row("a bare service", Case::Bare),
    row(
        "a service that adds a request extension, without a limit",
        Case::Inserted,
    )
    .over(Case::Bare),
    row(
        "a service that adds the two fields, without a limit",
        Case::Fields,
    )
    .over(Case::Bare),
    row("a service that refuses, without a limit", Case::Refusal).over(Case::Bare),
];

const fn row(what: &'static str, case: Case) -> Row {
    Row {
        what,
        case,
        over: None,
        peer: None,
        most: None,
        goal: None,
    }
}

impl Row {
    const fn over(mut self, bare: Case) -> Self {
        self.over = Some(bare);
        self
    }

    const fn beside(mut self, peer: Case) -> Self {
        self.peer = Some(peer);
        self
    }

    const fn at_most(mut self, most: u64) -> Self {
        self.most = Some(most);
        self
    }

    const fn goal(mut self, goal: u64) -> Self {
        self.goal = Some(goal);
        self
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if let Some(name) = arguments.next() {
        return cases::run(&name);
    }
    let mut is_met = true;
    println!("| instructions | tollgate | peer | at most | goal |\n|---|---|---|---|---|");
    for Row {
        what,
        case,
        over,
        peer,
        most,
        goal,
    } in ROWS
    {
        let bare = over.map_or(0, count);
        let ours = count(case) - bare;
        is_met &= most.is_none_or(|most| ours <= most);
        let peer = cell(peer.map(|peer| count(peer) - bare));
        let (most, goal) = (cell(most), cell(goal));
        println!("| {what} | {ours} | {peer} | {most} | {goal} |");
    }
    match is_met {
        true => ExitCode::SUCCESS,
        false => {
            eprintln!("a row exceeds its limit");
            ExitCode::FAILURE
        }
    }
}

fn cell(count: Option<u64>) -> String {
    count.map_or(String::new(), |count| count.to_string())
}
