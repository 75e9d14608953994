//! A receipt as text: numbers, and a hash that binds them to their bucket, in hexadecimal digits.

use std::{fmt::Write, time::Duration};

use sha2::{Digest, Sha256};

use super::{Receipt, StoredCharge};
use crate::{
    clock::Timestamp,
    gcra::{Gcra, Ticks},
    transaction::{bucket_key::BucketKey, fingerprint::ClientFingerprint},
    varint,
};

/// The first byte: the version of the layout, 1, and the kind of the charge.
const GCRA: u8 = 0x11;
const WINDOW: u8 = 0x12;
const QUOTA: u8 = 0x13;
/// A charge by GCRA that took less than the time of its tokens. It has two more numbers than other charges by GCRA.
const GCRA_PART: u8 = 0x14;

const HASH_BYTES: usize = 16;

impl Receipt {
    /// Writes the receipt as text, bound to the key of its bucket.
    pub(crate) fn to_text(&self, key: BucketKey<'_>) -> String {
        let mut bytes = self.to_bytes();
        bytes.extend(hash(&bytes, key));
        let mut text = String::with_capacity(2 * bytes.len());
        for byte in bytes {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Reads the receipt of a client. The text is bound to the client's key for GCRA, whatever the algorithm of the charge.
    pub(crate) fn from_text(
        text: &str,
        key: BucketKey<'_>,
        client: ClientFingerprint,
    ) -> Option<Self> {
        let bytes = from_hex(text)?;
        let (payload, hashed) = bytes.split_at_checked(bytes.len().checked_sub(HASH_BYTES)?)?;
        if hash(payload, key) != *hashed {
            return None;
        }
        let mut rest = payload;
        let receipt = Self::read(&mut rest, client)?;
        rest.is_empty().then_some(receipt)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        let (kind, numbers) = match &self.charge {
            StoredCharge::Gcra { gcra, tat, short } => {
                let period_us = u64::try_from(gcra.period().as_micros()).unwrap_or(u64::MAX);
                let [burst, count] = [gcra.burst(), gcra.count()].map(u64::from);
                let mut numbers = vec![burst, count, period_us, tat.us, tat.frac.into()];
                // An older process cannot read the longer form, so almost all receipts have the shorter one.
                if *short == Ticks::default() {
                    (GCRA, numbers)
                } else {
                    numbers.extend([short.us, short.frac.into()]);
                    (GCRA_PART, numbers)
                }
            }
            StoredCharge::Window { at } => (WINDOW, vec![at.as_micros()]),
            StoredCharge::Quota { start_us } => (QUOTA, vec![*start_us]),
        };
        bytes.push(kind);
        varint::write(&mut bytes, self.cost.into());
        for number in numbers {
            varint::write(&mut bytes, number);
        }
        // The fingerprint is random per process, so it distinguishes local charges of different processes.
        let process = if self.is_local { self.bucket.high } else { 0 };
        varint::write(&mut bytes, process);
        bytes
    }

    fn read(bytes: &mut &[u8], client: ClientFingerprint) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        *bytes = rest;
        let cost = varint::read_u32(bytes).ok()?;
        let charge = match *kind {
            GCRA | GCRA_PART => read_gcra(bytes, *kind == GCRA_PART)?,
            WINDOW => StoredCharge::Window {
                at: Timestamp::from_micros(varint::read(bytes).ok()?),
            },
            QUOTA => StoredCharge::Quota {
                start_us: varint::read(bytes).ok()?,
            },
            _ => return None,
        };
        let bucket = client.bucket(charge.algorithm());
        let process = varint::read(bytes).ok()?;
        let is_local = process != 0 && process == bucket.high;
        // Another process has decided it locally, so neither this process nor the store can refund it.
        let is_elsewhere = process != 0 && !is_local;
        let cost = if is_elsewhere { 0 } else { cost };
        Some(Self::new(bucket, charge, cost, is_local))
    }
}

fn read_gcra(bytes: &mut &[u8], is_part: bool) -> Option<StoredCharge> {
    let burst = varint::read_u32(bytes).ok()?;
    let count = varint::read_u32(bytes).ok()?;
    let period = Duration::from_micros(varint::read(bytes).ok()?);
    let gcra = Gcra::new(burst, count, period).ok()?;
    let tat = read_ticks(bytes)?;
    let short = match is_part {
        true => read_ticks(bytes)?,
        false => Ticks::default(),
    };
    // A receipt has one form, and less than one token is missing.
    let is_less = short < gcra.interval() && short.frac < gcra.count();
    let is_valid = is_less && is_part == (short > Ticks::default());
    is_valid.then_some(StoredCharge::Gcra { gcra, tat, short })
}

fn read_ticks(bytes: &mut &[u8]) -> Option<Ticks> {
    let us = varint::read(bytes).ok()?;
    let frac = varint::read_u32(bytes).ok()?;
    Some(Ticks { us, frac })
}

/// Binds a receipt to its bucket. Anyone can compute it.
fn hash(payload: &[u8], key: BucketKey<'_>) -> [u8; HASH_BYTES] {
    let mut hash = Sha256::new();
    for part in [payload, key.to_string().as_bytes()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut short = [0; HASH_BYTES];
    let long = hash.finalize();
    short.copy_from_slice(&long[..HASH_BYTES]);
    short
}

/// In lower case only, so that a receipt has one form.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    const LONGEST: usize = 200;
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    if text.len() > LONGEST || text.len() % 2 == 1 {
        return None;
    }
    let pairs = text.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::{AlgorithmKey, LimitKey, LimitSeed};

    const ID: &str = "alice";

    fn client(limit: LimitKey<'_>, id: &str) -> ClientFingerprint {
        LimitSeed::of(limit).client(id)
    }

    fn receipts() -> Vec<Receipt> {
        let longest = Gcra::new(u32::MAX, u32::MAX, Duration::from_micros(1 << 51)).unwrap();
        let short = Gcra::new(20, 7, Duration::from_secs(1)).unwrap();
        let tat = |us, frac| Ticks { us, frac };
        let short_of_nothing = Ticks::default();
        let charges = [
            StoredCharge::Gcra {
                gcra: longest,
                tat: tat((1 << 53) - 1, u32::MAX - 1),
                short: short_of_nothing,
            },
            StoredCharge::Gcra {
                gcra: short,
                tat: tat(1_767_225_600_000_000, 6),
                short: short_of_nothing,
            },
            StoredCharge::Gcra {
                gcra: longest,
                tat: tat((1 << 53) - 1, u32::MAX - 1),
                short: tat((1 << 51) / u64::from(u32::MAX) - 1, u32::MAX - 1),
            },
            StoredCharge::Gcra {
                gcra: short,
                tat: tat(1_767_225_600_000_000, 0),
                short: tat(0, 1),
            },
            StoredCharge::Window {
                at: Timestamp::from_micros((1 << 52) - 1),
            },
            StoredCharge::Quota { start_us: 0 },
            StoredCharge::Quota {
                start_us: (1 << 52) - 1,
            },
        ];
        let client = client(LimitKey::Number(6), ID);
        let receipt = |charge: StoredCharge| {
            let bucket = client.bucket(charge.algorithm());
            [false, true].map(|is_local| Receipt::new(bucket, charge, u32::MAX, is_local))
        };
        charges.into_iter().flat_map(receipt).collect()
    }

    #[test]
    fn receipts_are_read_as_they_are_written_and_by_their_bucket_only() {
        let key = BucketKey::new(LimitKey::Number(6), ID);
        for receipt in receipts() {
            let text = receipt.to_text(key);
            assert!(text.len() <= 200, "{}", text.len());
            let own = client(key.limit, ID);
            assert_eq!(Receipt::from_text(&text, key, own).as_ref(), Some(&receipt));
            let others = [
                (LimitKey::Number(7), ID),
                (LimitKey::Number(6), "alicf"),
                (LimitKey::Name("a6"), ID),
            ];
            for (limit, id) in others {
                let other = BucketKey::new(limit, id);
                assert_eq!(Receipt::from_text(&text, other, client(limit, id)), None);
            }
        }
    }

    #[test]
    fn texts_that_older_versions_have_written_are_read() {
        let key = BucketKey::new(LimitKey::Number(6), ID);
        let gcra = Gcra::new(20, 7, Duration::from_secs(1)).unwrap();
        let us = 1_767_225_600_000_000;
        for (text, cost, charge) in [
            (
                "11071407c0843d808081b184e991030600418b7d26260b91d5e90c6ab27c2efa63",
                7,
                StoredCharge::Gcra {
                    gcra,
                    tat: Ticks { us, frac: 6 },
                    short: Ticks::default(),
                },
            ),
            (
                "1203808081b184e99103008f8397cf6410fa26936f02eb72a97732",
                3,
                StoredCharge::Window {
                    at: Timestamp::from_micros(us),
                },
            ),
            (
                "13ffffffff0f808081b184e9910300d68782ba54ccf56619a91c6237355f6f",
                u32::MAX,
                StoredCharge::Quota { start_us: us },
            ),
        ] {
            let client = client(key.limit, ID);
            let receipt = Receipt::new(client.bucket(charge.algorithm()), charge, cost, false);
            assert_eq!(receipt.to_text(key), text, "which they can read as well");
            let read = Receipt::from_text(text, key, client);
            assert_eq!(read, Some(receipt));
        }
    }

    #[test]
    fn more_than_a_token_cannot_be_missing() {
        let key = BucketKey::new(LimitKey::Number(6), ID);
        let gcra = Gcra::new(20, 7, Duration::from_secs(1)).unwrap();
        let own = client(key.limit, ID);
        for (us, frac, is_valid) in [
            (0, 1, true),
            (142_857, 0, true),
            (142_857, 1, false),
            (0, 7, false),
            (0, u32::MAX, false),
        ] {
            let (tat, short) = (Ticks::from_micros(1 << 51), Ticks { us, frac });
            let charge = StoredCharge::Gcra { gcra, tat, short };
            let text = Receipt::new(own.bucket(charge.algorithm()), charge, 9, false).to_text(key);
            let read = Receipt::from_text(&text, key, own);
            assert_eq!(read.is_some(), is_valid, "{short:?}");
        }
    }

    #[test]
    fn changed_texts_are_refused() {
        let key = BucketKey::new(LimitKey::Number(6), ID);
        let own = client(key.limit, ID);
        for receipt in receipts() {
            let text = receipt.to_text(key);
            for (place, old) in text.char_indices() {
                let mut changed = text.clone();
                let new = if old == '0' { "1" } else { "0" };
                changed.replace_range(place..=place, new);
                assert_eq!(Receipt::from_text(&changed, key, own), None, "{changed}");
            }
            for len in 0..text.len() {
                assert_eq!(Receipt::from_text(&text[..len], key, own), None);
            }
            for other in [
                format!("{text}00"),
                text.to_uppercase(),
                "é".repeat(40),
                "0".repeat(500),
            ] {
                assert_eq!(Receipt::from_text(&other, key, own), None, "{other}");
            }
        }
    }

    #[test]
    fn charge_of_another_process_gives_nothing_back_here() {
        let key = BucketKey::new(LimitKey::Number(6), ID);
        let theirs = client(LimitKey::Number(7), ID).bucket(AlgorithmKey::Quota);
        let charge = StoredCharge::Quota { start_us: 5 };
        let here = client(key.limit, ID);
        let of = |is_local| {
            let text = Receipt::new(theirs, charge, 7, is_local).to_text(key);
            let read = Receipt::from_text(&text, key, here).unwrap();
            assert!(read.is_for(here));
            (read.cost(), read.is_local())
        };
        assert_eq!((of(false), of(true)), ((7, false), (0, false)));
    }
}
