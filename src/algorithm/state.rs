//! The state of a bucket, and its form in bytes.

use thiserror::Error;

use super::{
    concurrency::Permits,
    gcra::Ticks,
    numbers::{AsNumbers, Numbers, bytes_of},
    quota::Usage,
    tiers::History,
    window::Units,
};

/// The state of a bucket that has been used, for backends that keep it themselves.
/// The [backend docs](crate::backend::custom) have an example.
///
/// A store keeps its [bytes](Self::to_bytes). Each version of this crate reads what an earlier version has written, on every
/// platform, and the same state always has the same bytes. A state takes about 10 bytes, those of windows, tiers and permits as
/// many more as they have units: 2 to 8 for each unit of a window, and about 18 for each permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State(StateKind);

/// A state of each kind. The end of a block is kept like the arrival time of a token bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StateKind {
    Gcra(Ticks),
    Window(Units),
    Quota(Usage),
    Concurrency(Permits),
    Tiers(History),
}

impl State {
    /// Writes the state as bytes: a letter for its kind, and whole numbers in LEB128.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match &self.0 {
            StateKind::Gcra(tat) => bytes_of(tat),
            StateKind::Window(units) => bytes_of(units),
            StateKind::Quota(usage) => bytes_of(usage),
            StateKind::Concurrency(permits) => bytes_of(permits),
            StateKind::Tiers(history) => bytes_of(history),
        }
    }

    /// Reads a state from [its bytes](Self::to_bytes).
    ///
    /// # Errors
    ///
    /// If no version up to this one has written them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        let (letter, bytes) = bytes.split_first().ok_or(StateError)?;
        let read: fn(&mut Numbers<'_>) -> Option<Self> = match *letter {
            Ticks::LETTER => read::<Ticks>,
            Units::LETTER => read::<Units>,
            Usage::LETTER => read::<Usage>,
            Permits::LETTER => read::<Permits>,
            History::LETTER => read::<History>,
            _ => return Err(StateError),
        };
        let mut numbers = Numbers(bytes);
        let state = read(&mut numbers).ok_or(StateError)?;
        if numbers.0.is_empty() {
            Ok(state)
        } else {
            Err(StateError)
        }
    }
}

/// The error for bytes that are not a [`State`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the stored bytes are not the state of a bucket: if a newer version has written them, deploy that, else delete the bucket"
)]
pub struct StateError;

/// A state of some algorithm.
pub(crate) trait AnyState: AsNumbers + Default + PartialEq {
    fn into_state(self) -> State;

    /// Returns `None` if the state is of another algorithm, which is then only there by mistake: it has another key.
    fn of_state(state: State) -> Option<Self>;
}

impl AnyState for Ticks {
    fn into_state(self) -> State {
        State(StateKind::Gcra(self))
    }

    fn of_state(state: State) -> Option<Self> {
        match state.0 {
            StateKind::Gcra(tat) => Some(tat),
            _ => None,
        }
    }
}

impl AnyState for Units {
    fn into_state(self) -> State {
        State(StateKind::Window(self))
    }

    fn of_state(state: State) -> Option<Self> {
        match state.0 {
            StateKind::Window(units) => Some(units),
            _ => None,
        }
    }
}

impl AnyState for Usage {
    fn into_state(self) -> State {
        State(StateKind::Quota(self))
    }

    fn of_state(state: State) -> Option<Self> {
        match state.0 {
            StateKind::Quota(usage) => Some(usage),
            _ => None,
        }
    }
}

impl AnyState for Permits {
    fn into_state(self) -> State {
        State(StateKind::Concurrency(self))
    }

    fn of_state(state: State) -> Option<Self> {
        match state.0 {
            StateKind::Concurrency(permits) => Some(permits),
            _ => None,
        }
    }
}

impl AnyState for History {
    fn into_state(self) -> State {
        State(StateKind::Tiers(self))
    }

    fn of_state(state: State) -> Option<Self> {
        match state.0 {
            StateKind::Tiers(history) => Some(history),
            _ => None,
        }
    }
}

fn read<S: AnyState>(numbers: &mut Numbers<'_>) -> Option<State> {
    S::read(numbers).map(S::into_state)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        Limit, Limits,
        backend::custom::{Batch, Member, Operation},
        clock::Timestamp,
        quota::Per,
        random,
        tiers::Tier,
        transaction::Mode,
    };

    const T: u64 = 1_767_225_600_000_000;

    fn limits() -> [Limit; 7] {
        let second = Duration::from_secs(1);
        let burst = Tier::new(6, second * 5).active(second * 5);
        [
            Limit::per(7, second).burst(10),
            Limit::window(10, second * 2),
            Limit::quota(10, Per::first_use(second * 3)),
            Limit::concurrent(10),
            Limit::tiers([Tier::new(4, second), burst.cooldown(second * 15)]).unwrap(),
            Limit::tiers([Tier::new(4, second).active(second * 3)]).unwrap(),
            Limit::tiers([Tier::new(4, second).active(second), burst]).unwrap(),
        ]
    }

    /// Asks for some units, and returns the state after it.
    fn after(limit: &Limit, cost: u32, now: u64, state: Option<State>) -> Option<State> {
        let names = Limits::builder().limit("a", limit.clone()).build().unwrap();
        let member = Member::new(names.get("a").unwrap(), "x", cost, Mode::CheckAndSpend);
        let members = [member];
        let batch = Batch::new(Operation::Spend, &members);
        let (_, changes) = batch.decide(Timestamp::from_micros(now), [state.clone()]);
        let change = changes.into_iter().next();
        change.map_or(state, |change| change.state)
    }

    /// A later version must read them: add rows, and never change one.
    #[test]
    fn bytes_stay_as_they_are() {
        let rows: [(State, &[u8]); 5] = [
            (
                State(StateKind::Gcra(Ticks { us: T, frac: 5 })),
                b"g\x80\x80\x81\xb1\x84\xe9\x91\x03\x05",
            ),
            (
                State(StateKind::Quota(Usage { end: 300, used: 7 })),
                b"q\xac\x02\x07",
            ),
            (
                Units::read(&mut Numbers(b"\x07\0\x03"))
                    .unwrap()
                    .into_state(),
                b"w\x07\0\x03",
            ),
            (
                Permits::read(&mut Numbers(b"\x05\x06\x02\x01\x02\x03"))
                    .unwrap()
                    .into_state(),
                b"c\x05\x06\x02\x01\x02\x03",
            ),
            (
                History::read(&mut Numbers(b"\x09\x02\x00\x00\x01\x09\x0a\x02\0"))
                    .unwrap()
                    .into_state(),
                b"t\x09\x02\x00\x00\x01\x09\x0a\x02\0",
            ),
        ];
        for (state, bytes) in rows {
            assert_eq!(state.to_bytes(), bytes, "{state:?}");
            assert_eq!(State::from_bytes(bytes), Ok(state));
        }
    }

    #[test]
    fn states_of_all_algorithms_are_read_as_they_were_written() {
        for limit in limits() {
            let mut state = None;
            for step in 0..400 {
                let random = random::number();
                let cost = u32::try_from(random % 3 + 1).unwrap();
                let now = T + step * 200_000 + random % 1000;
                state = after(&limit, cost, now, state);
                let Some(written) = &state else { continue };
                let read = State::from_bytes(&written.to_bytes());
                assert_eq!(read.as_ref(), Ok(written), "{limit}");
            }
        }
    }

    #[test]
    fn other_bytes_are_errors_or_states_that_can_be_decided() {
        for limit in limits() {
            let mut state = None;
            for step in 0..5 {
                state = after(&limit, 2, T + step, state);
            }
            let written = state.unwrap().to_bytes();
            for _ in 0..20_000 {
                let mut bytes = written.clone();
                let index = usize::try_from(random::number() % bytes.len() as u64).unwrap();
                bytes[index] = random::number().to_le_bytes()[0];
                if let Ok(state) = State::from_bytes(&bytes) {
                    after(&limit, 1, T + 10, Some(state));
                }
            }
        }
        for bytes in [
            &b""[..],
            b"x",
            b"g",
            b"g\x80\0\0",
            b"g\x01\x01\x01",
            b"q\x01\xff\xff\xff\xff\x1f",
        ] {
            assert_eq!(State::from_bytes(bytes), Err(StateError), "{bytes:?}");
        }
        let words = StateError.to_string();
        assert!(words.contains("delete the bucket"), "{words}");
    }
}
