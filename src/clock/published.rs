use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use super::line::ClockLine;

/// The line in force. All threads read it without a lock; one thread at a time replaces it.
///
/// There are two copies, and the generation selects the valid one. A writer changes the other copy, so a reader never
/// waits. A reader only tries again if its copy may have changed while it was reading.
#[derive(Debug)]
pub(super) struct Published {
    generation: AtomicUsize,
    copies: [[AtomicU64; 4]; 2],
}

impl Published {
    pub(super) fn new(line: ClockLine) -> Self {
        let copy = || fields(line).map(AtomicU64::new);
        Self {
            generation: AtomicUsize::new(0),
            copies: [copy(), copy()],
        }
    }

    #[inline]
    pub(super) fn load(&self) -> ClockLine {
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            let [counter, span, time, rate] = &self.copies[generation & 1];
            let line = ClockLine {
                counter: counter.load(Ordering::Relaxed),
                span: span.load(Ordering::Relaxed),
                time: time.load(Ordering::Relaxed),
                rate: rate.load(Ordering::Relaxed),
            };
            // If a field is from a later generation, this fence makes the check below see that the generation has
            // changed.
            fence(Ordering::Acquire);
            if self.generation.load(Ordering::Relaxed) == generation {
                return line;
            }
        }
    }

    /// Replaces the line. The caller must ensure that no other thread does so at the same time.
    pub(super) fn store(&self, line: ClockLine) {
        let next = self.generation.load(Ordering::Relaxed).wrapping_add(1);
        fence(Ordering::Release);
        for (field, value) in self.copies[next & 1].iter().zip(fields(line)) {
            field.store(value, Ordering::Relaxed);
        }
        self.generation.store(next, Ordering::Release);
    }
}

fn fields(line: ClockLine) -> [u64; 4] {
    let ClockLine {
        counter,
        span,
        time,
        rate,
    } = line;
    [counter, span, time, rate]
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicBool, thread};

    use super::*;

    fn line(i: u64) -> ClockLine {
        ClockLine {
            counter: i,
            span: i ^ 1,
            time: i.wrapping_mul(7),
            rate: !i,
        }
    }

    #[test]
    fn readers_see_whole_lines_in_their_order() {
        const REPLACED: u64 = 200;
        let published = Published::new(line(0));
        let is_done = AtomicBool::new(false);
        let read = &|seen: &AtomicU64| {
            let mut last = 0;
            while !is_done.load(Ordering::Relaxed) {
                let now = published.load();
                assert_eq!(now, line(now.counter), "of one line");
                assert!(now.counter >= last, "{} after {last}", now.counter);
                seen.fetch_add(u64::from(now.counter > last), Ordering::Relaxed);
                last = now.counter;
                thread::yield_now();
            }
        };
        let seen = [AtomicU64::new(0), AtomicU64::new(0)];
        thread::scope(|scope| {
            let readers = [0, 1].map(|i: usize| {
                scope.spawn({
                    let seen = &seen;
                    move || read(&seen[i])
                })
            });
            let mut written = 0;
            let is_short = |seen: &AtomicU64| seen.load(Ordering::Relaxed) < REPLACED;
            // A reader that has failed sees no more.
            while seen.iter().any(is_short) && !readers.iter().any(|reader| reader.is_finished()) {
                written += 1;
                published.store(line(written));
                if written % 100 == 0 {
                    thread::yield_now();
                }
            }
            is_done.store(true, Ordering::Relaxed);
        });
    }
}
