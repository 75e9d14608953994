//! Counts instructions with callgrind, which gives the same numbers on each run: of one decision, and of one request through
//! a layer. Prints a table beside the peers, and fails if a row exceeds its limit.
//!
//! ```console
//! $ cargo run --release -p tollgate-instructions
//! ```

mod cases;
mod count;

use std::process::ExitCode;

use self::{cases::Case, count::count};

/// A row of the table: a case, what is subtracted from it, its peer, and the most that it may take.
struct Row {
    what: &'static str,
    case: Case,
    over: Option<Case>,
    peer: Option<Case>,
    most: Option<u64>,
}

const ROWS: [Row; 11] = [
    row("`Limiter`, by handle", Case::Handle)
        .beside(Case::Governor)
        .at_most(450),
    row("`Limiter`, by name", Case::Name)
        .beside(Case::Governor)
        .at_most(550),
    row("`MemoryBackend` alone", Case::Backend)
        .beside(Case::Governor)
        .at_most(320),
    row("layer, no headers, no extensions", Case::Plain)
        .over(Case::Bare)
        .beside(Case::PeerPlain)
        .at_most(900),
    row("layer, request extension", Case::Extension).over(Case::Bare),
    row("layer, headers", Case::Headers)
        .over(Case::Bare)
        .beside(Case::PeerHeaders)
        .at_most(2300),
    row(
        "layer, headers and request extension (the default)",
        Case::Default,
    )
    .over(Case::Bare)
    .beside(Case::PeerHeaders)
    .at_most(3000),
    row(
        "the default, with a matched path and five headers",
        Case::Realistic,
    )
    .over(Case::BareRealistic)
    .beside(Case::PeerRealistic),
    row("denied, default, total", Case::Denied)
        .beside(Case::PeerDenied)
        .at_most(5000),
    row("tiers through `Limiter`, by handle", Case::Tiers),
    row("a bare service", Case::Bare),
];

const fn row(what: &'static str, case: Case) -> Row {
    Row {
        what,
        case,
        over: None,
        peer: None,
        most: None,
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
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if let Some(name) = arguments.next() {
        return cases::run(&name);
    }
    let mut is_met = true;
    println!("| instructions | tollgate | peer | at most |\n|---|---|---|---|");
    for Row {
        what,
        case,
        over,
        peer,
        most,
    } in ROWS
    {
        let bare = over.map_or(0, count);
        let ours = count(case) - bare;
        let peer = peer.map_or(String::new(), |peer| (count(peer) - bare).to_string());
        is_met &= most.is_none_or(|most| ours <= most);
        let most = most.map_or(String::new(), |most| most.to_string());
        println!("| {what} | {ours} | {peer} | {most} |");
    }
    match is_met {
        true => ExitCode::SUCCESS,
        false => {
            eprintln!("a row exceeds its limit");
            ExitCode::FAILURE
        }
    }
}
