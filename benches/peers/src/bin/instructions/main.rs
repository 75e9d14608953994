//! Counts the instructions of one decision, and of one request through a layer. callgrind gives the same numbers on
//! each run. Prints a table with the peers or, with the argument `check`, fails if a case needs more than a tenth more than the
//! kept count.
//!
//! ```console
//! $ cargo run --release -p tollgate-peers --bin instructions
//! ```

mod cases;
mod count;
mod gate;

use std::process::ExitCode;

use self::{cases::Case, count::count};

/// A row of the table: a case, the case to subtract from it, and its peer.
struct Row {
    what: &'static str,
    case: Case,
    over: Option<Case>,
    peer: Option<Case>,
}

const ROWS: [Row; 28] = [
    row("`Limiter`, by handle", Case::Handle).beside(Case::Governor),
    row("`Limiter`, by name", Case::Name).beside(Case::Governor),
    row("`MemoryBackend` alone", Case::Backend).beside(Case::Governor),
    row("layer, no headers", Case::Plain)
        .over(Case::Bare)
        .beside(Case::PeerPlain),
    row("layer, request extension", Case::Extension).over(Case::Bare),
    row("layer, headers (the default)", Case::Default)
        .over(Case::Bare)
        .beside(Case::PeerHeaders),
    row("layer, `X-RateLimit-*`", Case::XRateLimit).over(Case::Bare),
    row(
        "the default, with a matched path, five headers, and a content type in the response",
        Case::Realistic,
    )
    .over(Case::BareRealistic)
    .beside(Case::PeerRealistic),
    row("denied, default, total", Case::Denied).beside(Case::PeerDenied),
    row("two limits by name", Case::Names(2)),
    row("four limits by name", Case::Names(4)),
    row("layer with two rules, no headers", Case::PlainRules(2)).over(Case::Bare),
    row("layer with four rules, no headers", Case::PlainRules(4)).over(Case::Bare),
    row("layer with two rules, default", Case::Rules(2)).over(Case::Bare),
    row("layer with four rules, default", Case::Rules(4)).over(Case::Bare),
    row(
        "layer with four rules, default, denied by the last, total",
        Case::DeniedRules(4),
    ),
    row("layer with a quota, no headers", Case::PlainQuota).over(Case::Bare),
    row("layer with a window, no headers", Case::PlainWindow).over(Case::Bare),
    row("layer with tiers, no headers", Case::PlainTiers).over(Case::Bare),
    row("tiers through `Limiter`, by handle", Case::Tiers),
    row("a window through `Limiter`, by handle", Case::Window),
    row("a permit taken and given back, by `enter`", Case::Permit),
    row(
        "a permit taken and given back, by its receipt",
        Case::PermitReceipt,
    ),
    row("layer with permits, no headers", Case::PlainPermits).over(Case::Bare),
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
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        None => {}
        Some("check") => return gate::check(),
        Some("keep") => return gate::keep(),
        Some(name) => return cases::run(name),
    }
    println!("| instructions | tollgate | peer |\n|---|---|---|");
    for Row {
        what,
        case,
        over,
        peer,
    } in ROWS
    {
        let bare = over.map_or(0, count);
        let ours = count(case) - bare;
        let peer = peer.map_or(String::new(), |peer| (count(peer) - bare).to_string());
        println!("| {what} | {ours} | {peer} |");
    }
    ExitCode::SUCCESS
}
