//! The time after the last fault, in which the processes find out that the store is back.

use crate::{
    fleet::{Fleet, STEPS},
    network::{Way, lock},
    plan::MILLI,
};

/// How often each process asks each server once the faults have ended, and for how long.
const HEARTBEAT: u64 = 50 * MILLI;
const HEARTBEATS: u64 = 3_000 * MILLI;

/// The published time after which the store decides again.
const RETURN: u64 = 2_000 * MILLI;

impl Fleet {
    /// Ends all faults, and lets requests find out.
    pub(crate) fn recover(&mut self) {
        let healed = self.now;
        self.heal();
        while self.now < healed + HEARTBEATS {
            self.run_until(self.now + HEARTBEAT, STEPS.0);
            let is_late = self.now > healed + RETURN;
            for process in 0..self.processes.len() {
                self.beat(process, is_late);
            }
        }
    }

    fn heal(&mut self) {
        let now = self.now;
        self.ends.clear();
        {
            let mut network = lock(&self.network);
            for server in 0..network.servers.len() {
                network.go_on(now, server);
            }
            for ways in &mut network.ways {
                ways.fill(Way::GOOD);
            }
        }
        for process in &mut self.processes {
            process.away_until = process.away_until.min(now);
        }
        let starts = std::mem::take(&mut self.starts).into_iter();
        self.starts = starts
            .map(|((_, place), version)| ((now, place), version))
            .collect();
    }

    /// Lets a process ask each server about a bucket of its own. When it is late, only the store may decide.
    fn beat(&self, process: usize, is_late: bool) {
        let Some(caller) = self.caller(process) else {
            return;
        };
        let servers = self.setup.servers;
        let beat = async move {
            for server in 0..servers {
                caller.beat(server, is_late).await;
            }
        };
        self.processes[process].spawn(beat);
    }
}
