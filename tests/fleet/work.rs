//! Work that holds permits.

use std::time::Duration;

use tokio::time;
use tollgate::{decision::Source, limiter::Permit};

use crate::{
    caller::Caller,
    ledger::Bucket,
    limits,
    plan::{MILLI, Work},
    record::Belief,
};

/// How often work looks whether its permits are still held.
const LOOK: u64 = 15 * MILLI;

impl Caller {
    /// Takes permits, and does the work for as long as it has them.
    pub(crate) async fn work(self, work: Work) {
        let name = limits::name(work.place);
        let limit = self.limiter.limit(&name).expect("the limit is known");
        let limit = limit.cost(work.permits);
        let entering = limit.enter(&work.id);
        let entered = match work.leaves {
            Some(after) => match time::timeout(Duration::from_micros(after), entering).await {
                Ok(entered) => entered,
                Err(_) => return,
            },
            None => entering.await,
        };
        // The policy may refuse, or there is none and the store does not answer.
        let Ok(Ok(permit)) = entered else { return };
        // Without the store, a limit can admit everything.
        if permit.decision().limited() {
            self.hold(&work, &permit).await;
        }
        match work.releases {
            true => drop(permit.release().await),
            false => drop(permit),
        }
    }

    /// Goes on until the end of the work, or until its permits are lost.
    async fn hold(&self, work: &Work, permit: &Permit) {
        let from = self.clock.world();
        let bucket: Bucket = (limits::number(work.place), work.id.clone());
        let belief = Belief {
            bucket,
            process: self.process,
            source: permit.decision().source(),
            permits: work.permits,
            from,
            until: from,
            lost: None,
        };
        let place = {
            let mut record = self.record();
            record.beliefs.push(belief);
            record.beliefs.len() - 1
        };
        while self.holds(place, permit) && self.clock.world() < from + work.lasts {
            time::sleep(Duration::from_micros(LOOK)).await;
        }
    }

    /// Looks whether permits are held, and records it.
    fn holds(&self, place: usize, permit: &Permit) -> bool {
        let (now, is_held) = (self.clock.world(), permit.is_held());
        let belief = &mut self.record().beliefs[place];
        match is_held {
            true => belief.until = now,
            false => belief.lost = Some(now),
        }
        is_held
    }
}

impl Belief {
    /// Whether the store has granted them.
    pub(crate) fn is_of_store(&self) -> bool {
        self.source != Source::Local
    }
}
