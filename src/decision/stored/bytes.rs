use std::collections::VecDeque;

use thiserror::Error;

use super::Stored;
use crate::{
    clock::Timestamp,
    gcra::Tat,
    quota::Usage,
    tiers::History,
    varint::{self, Malformed},
    window::{Units, Window},
};

/// The layout that is written.
const VERSION: u8 = 1;

/// The kinds of states. Further kinds take further numbers, up to 15.
const NOTHING: u8 = 0;
const GCRA: u8 = 1;
const TIERS: u8 = 2;
const WINDOW: u8 = 3;
const QUOTA: u8 = 4;

impl Stored {
    /// The state as bytes, for a store that keeps values as bytes.
    ///
    /// Equal states have equal bytes. A GCRA bucket takes about 10 bytes. A bucket with tiers takes about 10 bytes,
    /// some 5 for each tier, and 1 to 8 for each unit of a window that slides. A window takes 10 bytes, and 1 to 8 for
    /// each unit. A quota takes about 10.
    ///
    /// ```
    /// use tollgate::{decision::Stored, gcra::Tat};
    ///
    /// let stored = Stored::Gcra(Tat { us: 1_767_225_600_000_000, frac: 3 });
    /// let bytes = stored.to_bytes();
    /// assert_eq!(bytes.len(), 10);
    /// assert_eq!(Stored::from_bytes(&bytes)?, stored);
    /// # Ok::<_, tollgate::decision::StoredError>(())
    /// ```
    ///
    /// # Layout
    ///
    /// The first byte is 16 times the version of the layout, which is 1, plus the kind of the state. Only unsigned
    /// integers in LEB128 follow, each in as few bytes as it needs. Times are whole microseconds.
    ///
    /// | kind | state | content |
    /// |---|---|---|
    /// | 0 | [`Nothing`](Self::Nothing) | nothing |
    /// | 1 | [`Gcra`](Self::Gcra) | the TAT since the Unix epoch, below 2⁵³, and its fraction |
    /// | 2 | [`Tiers`](Self::Tiers) | the time of the last grant since the Unix epoch, below 2⁵²; the number of tiers, up to 16; each tier, lowest first |
    /// | 3 | [`Window`](Self::Window) | the number of units, up to 4096; when the newest was taken since the Unix epoch, below 2⁵²; for each of the others, newest first, how long before that |
    /// | 4 | [`Quota`](Self::Quota) | the start of the period since the Unix epoch, below 2⁵², and how much is used, at least 1 |
    ///
    /// A tier is 0 if it was never entered. Otherwise, it is 1 plus the time from its entry to the last grant, followed
    /// by its units in one of two forms: 2 × their number; or 1 plus 2 × their number, and then the time of each unit,
    /// newest first. The first time counts back from the last grant, and each of the others from the unit before it. A
    /// tier has up to 4096 units with times.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let header = |kind| VERSION << 4 | kind;
        match self {
            Self::Nothing => vec![header(NOTHING)],
            Self::Gcra(tat) => {
                let tat = tat.storable();
                let mut bytes = Vec::with_capacity(14);
                bytes.push(header(GCRA));
                varint::write(&mut bytes, tat.us);
                varint::write(&mut bytes, tat.frac.into());
                bytes
            }
            Self::Tiers(history) => {
                let mut bytes = vec![header(TIERS)];
                history.write_to(&mut bytes);
                bytes
            }
            Self::Window(units) if units.is_empty() => Self::Nothing.to_bytes(),
            Self::Window(units) => {
                let mut bytes = vec![header(WINDOW)];
                write_units(units, &mut bytes);
                bytes
            }
            Self::Quota(Usage { used: 0, .. }) => Self::Nothing.to_bytes(),
            Self::Quota(usage) => {
                let mut bytes = Vec::with_capacity(14);
                bytes.push(header(QUOTA));
                varint::write(&mut bytes, usage.start_us.min(LATEST_US));
                varint::write(&mut bytes, usage.used.into());
                bytes
            }
        }
    }

    /// The state that [`to_bytes`](Self::to_bytes) has written.
    ///
    /// # Errors
    ///
    /// If this version of the crate does not write such bytes. No input makes it panic, or allocate more than a valid
    /// state of the same length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoredError> {
        let (header, mut rest) = bytes.split_first().ok_or(StoredError::Truncated)?;
        let (version, kind) = (header >> 4, header & 0xf);
        if version != VERSION {
            return Err(StoredError::UnknownVersion(version));
        }
        let stored = match kind {
            NOTHING => Self::Nothing,
            GCRA => Self::Gcra(read_tat(&mut rest)?),
            TIERS => Self::Tiers(History::read_from(&mut rest)?),
            WINDOW => Self::Window(read_units(&mut rest)?),
            QUOTA => Self::Quota(read_usage(&mut rest)?),
            _ => return Err(StoredError::UnknownKind(kind)),
        };
        match rest {
            [] => Ok(stored),
            more => Err(StoredError::TrailingBytes(more.len())),
        }
    }
}

fn read_tat(bytes: &mut &[u8]) -> Result<Tat, Malformed> {
    let us = varint::read(bytes)?;
    let frac = varint::read_u32(bytes)?;
    let tat = Tat { us, frac };
    match tat == tat.storable() {
        true => Ok(tat),
        false => Err(Malformed::Impossible("a TAT of 2^53 us or more")),
    }
}

/// The latest instant at which anything is charged.
const LATEST_US: u64 = Timestamp::END.as_micros() - 1;

fn read_instant(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    match varint::read(bytes)? {
        us if us <= LATEST_US => Ok(us),
        _ => Err(Malformed::Impossible("a charge after the year 2112")),
    }
}

fn read_usage(bytes: &mut &[u8]) -> Result<Usage, Malformed> {
    let start_us = read_instant(bytes)?;
    match varint::read_u32(bytes)? {
        0 => Err(Malformed::Impossible("a quota of which nothing is used")),
        used => Ok(Usage { start_us, used }),
    }
}

fn write_units(units: &Units, bytes: &mut Vec<u8>) {
    varint::write(bytes, units.instants().len() as u64);
    let mut later = None;
    for instant in units.instants().rev() {
        let back = later.map_or(instant.min(LATEST_US), |later| later - instant);
        varint::write(bytes, back);
        later = Some(instant);
    }
}

fn read_units(bytes: &mut &[u8]) -> Result<Units, Malformed> {
    let len = varint::read(bytes)?;
    if len == 0 || len > u64::from(Window::MAX_UNITS) {
        return Err(Malformed::Impossible(
            "no units of a window, or more than 4096",
        ));
    }
    let mut instant = read_instant(bytes)?;
    let mut instants = VecDeque::from([instant]);
    for _ in 1..len {
        let before = instant.checked_sub(varint::read(bytes)?);
        instant = before.ok_or(Malformed::Impossible("a time before 1970"))?;
        instants.push_front(instant);
    }
    instants.make_contiguous();
    Ok(Units::from_instants(instants))
}

/// The error for bytes that are not the state of a bucket. Returned by [`Stored::from_bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StoredError {
    /// The layout has another version.
    #[error(
        "the bucket is stored in version {0} of the layout, and version 1 is read: use the version of tollgate that has \
         written it, or delete the bucket"
    )]
    UnknownVersion(u8),
    /// The algorithm is not known.
    #[error(
        "the bucket is stored as kind {0}, which is unknown: use the version of tollgate that has written it, or \
         delete the bucket"
    )]
    UnknownKind(u8),
    /// The bytes end too early.
    #[error("the stored bucket is incomplete: store all bytes, or delete the bucket")]
    Truncated,
    /// Bytes follow the state.
    #[error("{0} bytes follow the stored bucket: store its bytes only, or delete the bucket")]
    TrailingBytes(usize),
    /// A value that no decision produces.
    #[error("the stored bucket has {0}: another program has written it, so delete the bucket")]
    Impossible(&'static str),
}

impl From<Malformed> for StoredError {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Truncated => Self::Truncated,
            Malformed::Impossible(value) => Self::Impossible(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::{
        collection::vec,
        prelude::{Strategy, any, prop_assert_eq},
        prop_oneof, proptest,
    };

    use super::*;
    use crate::tiers::{Tier, Tiers};

    /// Wherever the limit goes, the history follows.
    fn histories() -> impl Strategy<Value = History> {
        let span = || {
            prop_oneof![
                (1_u64..1 << 20).prop_map(Duration::from_micros),
                (0_u64..1).prop_map(|_| Tier::FOREVER),
            ]
        };
        let tier = (1_u32..60, span(), span(), span()).prop_map(|(limit, window, active, cold)| {
            Tier::new(limit, window).active(active).cooldown(cold)
        });
        let tiers = vec(tier, 1..=16);
        let requests = vec((0_u64..1 << 19, 1_u32..300), 1..40);
        vec((tiers, requests), 1..3).prop_map(|lives| {
            let (mut history, mut now) = (History::default(), 1_767_225_600_000_000);
            for (tiers, requests) in lives {
                let tiers = Tiers::new(tiers).unwrap();
                for (later, units) in requests {
                    now += later;
                    tiers.request(&mut history, now, 1..=units);
                }
            }
            history
        })
    }

    fn units() -> impl Strategy<Value = Units> {
        vec(0_u64..1 << 19, 1..300).prop_map(|gaps| {
            let instants = gaps.iter().scan(1_767_225_600_000_000, |now, gap| {
                *now += gap;
                Some(*now)
            });
            Units::from_instants(instants.collect())
        })
    }

    fn states() -> impl Strategy<Value = Stored> {
        prop_oneof![
            (0_u64..1 << 53, any::<u32>()).prop_map(|(us, frac)| Stored::Gcra(Tat { us, frac })),
            histories().prop_map(Stored::Tiers),
            units().prop_map(Stored::Window),
            (0_u64..1 << 52, 1..=u32::MAX)
                .prop_map(|(start_us, used)| Stored::Quota(Usage { start_us, used })),
        ]
    }

    proptest! {
        #[test]
        fn states_are_read_as_they_are_written(stored in states()) {
            let bytes = stored.to_bytes();
            prop_assert_eq!(Stored::from_bytes(&bytes), Ok(stored));
            for len in 0..bytes.len() {
                prop_assert_eq!(Stored::from_bytes(&bytes[..len]), Err(StoredError::Truncated));
            }
        }

        /// Any bytes that are accepted are a state to decide by, and the only form of that state.
        #[test]
        fn any_bytes_are_refused_or_have_one_form(
            header in prop_oneof![0x10_u8..0x15, any::<u8>()],
            body in vec(prop_oneof![0_u8..4, any::<u8>()], 0..64),
        ) {
            let bytes = [&[header][..], &*body].concat();
            if let Ok(stored) = Stored::from_bytes(&bytes) {
                prop_assert_eq!(stored.to_bytes(), bytes);
                decide_by(stored);
            }
        }

        #[test]
        fn damaged_states_are_refused_or_have_one_form(
            stored in states(), place in any::<usize>(), byte in any::<u8>(),
        ) {
            let mut bytes = stored.to_bytes();
            let place = place % bytes.len();
            bytes[place] = byte;
            if let Ok(stored) = Stored::from_bytes(&bytes) {
                prop_assert_eq!(stored.to_bytes(), bytes);
                decide_by(stored);
            }
        }
    }

    fn decide_by(stored: Stored) {
        match stored {
            Stored::Tiers(history) => decide_by_history(&history),
            Stored::Window(units) => decide_by_units(&units),
            Stored::Nothing | Stored::Gcra(_) | Stored::Quota(_) => {}
        }
    }

    fn decide_by_units(units: &Units) {
        for us in [1, 1_000_000, 1 << 51] {
            let window = Window::new(4000, Duration::from_micros(us)).unwrap();
            for now in [0, LATEST_US] {
                let view = units.view(&window, now);
                let taken = view.debit_saturating(5000);
                for change in [taken, view.refund(7), view.refund_at(now, 7)] {
                    let mut units = units.clone();
                    units.change(&window, now, change);
                    assert!(units.instants().is_sorted() && units.instants().len() <= 4096);
                    let bytes = Stored::Window(units).to_bytes();
                    assert!(Stored::from_bytes(&bytes).is_ok());
                }
            }
        }
    }

    /// Decides by tiers with counted windows and with sliding ones, at the first instant and at the last.
    fn decide_by_history(history: &History) {
        let second = Duration::from_secs(1);
        for active in [second, 10 * second, Tier::FOREVER] {
            let tier = Tier::new(4000, second).active(active).cooldown(second);
            let tiers = Tiers::new([tier, tier.skippable(), tier]).unwrap();
            for now in [0, (1 << 52) - 1] {
                let mut history = history.clone();
                let wait = tiers.wait(&history, now, 1);
                let grant = tiers.request(&mut history, now, 1..=u32::MAX);
                assert_eq!(grant.is_some(), wait == Some(0));
                assert!(history.heap_bytes() < 1 << 20);
                let bytes = Stored::Tiers(history).to_bytes();
                assert!(Stored::from_bytes(&bytes).is_ok());
            }
        }
    }

    #[test]
    fn tat_beyond_all_decisions_is_written_as_the_latest_and_not_read() {
        let latest = Stored::Gcra(Tat {
            us: (1 << 53) - 1,
            frac: 7,
        });
        let beyond = Stored::Gcra(Tat {
            us: u64::MAX,
            frac: 7,
        });
        assert_eq!(beyond.to_bytes(), latest.to_bytes());
        assert_eq!(Stored::from_bytes(&latest.to_bytes()), Ok(latest));
        let mut bytes = vec![0x11];
        varint::write(&mut bytes, 1 << 53);
        bytes.push(0);
        let error = StoredError::Impossible("a TAT of 2^53 us or more");
        assert_eq!(Stored::from_bytes(&bytes), Err(error));
    }

    #[test]
    fn values_of_windows_and_quotas_that_no_decision_leads_to_are_refused() {
        for (header, numbers) in [
            (0x13, &[0][..]),
            (0x13, &[4097, 5]),
            (0x13, &[1, 1 << 52]),
            (0x13, &[2, 5, 6]),
            (0x14, &[1 << 52, 1]),
            (0x14, &[1, 0]),
            (0x14, &[1, 1 << 32]),
        ] {
            let mut bytes = vec![header];
            for number in numbers {
                varint::write(&mut bytes, *number);
            }
            let found = Stored::from_bytes(&bytes);
            assert!(
                matches!(found, Err(StoredError::Impossible(_))),
                "{numbers:?}: {found:?}"
            );
        }
    }

    #[test]
    fn values_that_no_decision_leads_to_are_refused() {
        let read = |numbers: &[u64]| {
            let mut bytes = vec![0x12];
            for number in numbers {
                varint::write(&mut bytes, *number);
            }
            Stored::from_bytes(&bytes)
        };
        assert!(read(&[100, 1, 1, 2 << 1]).is_ok());
        assert!(read(&[100, 1, 1, 2 << 1 | 1, 0, 100]).is_ok());
        for numbers in [
            &[1 << 52, 0][..],
            &[100, 17],
            &[100, 1, 102, 0],
            &[100, 1, 0, 1 << 1],
            &[100, 1, 1, 1 << 33],
            &[100, 1, 1, 4097 << 1 | 1],
            &[100, 1, 1, 2 << 1 | 1, 1, 100],
        ] {
            let found = read(numbers);
            assert!(
                matches!(found, Err(StoredError::Impossible(_))),
                "{numbers:?}: {found:?}"
            );
        }
    }

    #[test]
    fn layout_is_what_the_documentation_says() {
        assert_eq!(Stored::Nothing.to_bytes(), [0x10]);
        let tat = Stored::Gcra(Tat { us: 300, frac: 2 });
        assert_eq!(tat.to_bytes(), [0x11, 0xac, 0x02, 2]);
        let micros = Duration::from_micros;
        let slides = Tier::new(3, micros(100)).active(micros(200));
        let counts = Tier::new(5, micros(100)).active(micros(50));
        let tiers = Tiers::new([slides, counts]).unwrap();
        let mut history = History::default();
        for (now, units) in [(90, 2), (100, 5)] {
            tiers.request(&mut history, now, units..=units).unwrap();
        }
        let bytes = [0x12, 100, 2, 11, 3 << 1 | 1, 0, 10, 0, 1, 4 << 1];
        assert_eq!(Stored::Tiers(history).to_bytes(), bytes);
        let units = Stored::Window(Units::from_instants([90, 90, 100, 300].into()));
        assert_eq!(units.to_bytes(), [0x13, 4, 0xac, 0x02, 0xc8, 0x01, 10, 0]);
        let start_us = 300;
        let usage = Stored::Quota(Usage { start_us, used: 7 });
        assert_eq!(usage.to_bytes(), [0x14, 0xac, 0x02, 7]);
        assert_eq!(Stored::Window(Units::default()).to_bytes(), [0x10]);
        assert_eq!(Stored::Quota(Usage::NOTHING).to_bytes(), [0x10]);
        let errors = [
            (&[][..], StoredError::Truncated),
            (&[0x20], StoredError::UnknownVersion(2)),
            (&[0x15], StoredError::UnknownKind(5)),
            (&[0x10, 0, 0], StoredError::TrailingBytes(2)),
        ];
        for (bytes, error) in errors {
            assert_eq!(Stored::from_bytes(bytes), Err(error));
        }
    }
}
