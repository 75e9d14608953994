//! A receipt as text: numbers, and a hash that binds them to their bucket, in hexadecimal digits.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::Receipt;
use crate::{
    algorithm::Charge,
    transaction::{bucket_key::BucketKey, fingerprint::ClientFingerprint},
    varint,
};

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
        let (kind, numbers) = self.charge.numbers();
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
        let charge = Charge::read(*kind, bytes)?;
        let bucket = client.bucket(charge.key());
        let process = varint::read(bytes).ok()?;
        let is_local = process != 0 && process == bucket.high;
        // Another process has decided it locally, so neither this process nor the store can refund it.
        let is_elsewhere = process != 0 && !is_local;
        let cost = if is_elsewhere { 0 } else { cost };
        Some(Self::new(bucket, charge, cost, is_local))
    }
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
    use std::time::Duration;

    use super::*;
    use crate::{
        gcra::{Gcra, GcraCharge, Ticks},
        quota::QuotaCharge,
        transaction::{AlgorithmKey, IdHash, LimitKey, LimitSeed},
        window::WindowCharge,
    };

    const ID: &str = "alice";

    fn client(limit: LimitKey<'_>, id: &str) -> ClientFingerprint {
        LimitSeed::of(limit).client(IdHash::of(id))
    }

    fn receipts() -> Vec<Receipt> {
        let longest = Gcra::new(u32::MAX, u32::MAX, Duration::from_micros(1 << 51)).unwrap();
        let short = Gcra::new(20, 7, Duration::from_secs(1)).unwrap();
        let tat = |us, frac| Ticks { us, frac };
        let short_of_nothing = Ticks::default();
        let charges = [
            Charge::Gcra(GcraCharge {
                gcra: longest,
                tat: tat((1 << 53) - 1, u32::MAX - 1),
                short: short_of_nothing,
            }),
            Charge::Gcra(GcraCharge {
                gcra: short,
                tat: tat(1_767_225_600_000_000, 6),
                short: short_of_nothing,
            }),
            Charge::Gcra(GcraCharge {
                gcra: longest,
                tat: tat((1 << 53) - 1, u32::MAX - 1),
                short: tat((1 << 51) / u64::from(u32::MAX) - 1, u32::MAX - 1),
            }),
            Charge::Gcra(GcraCharge {
                gcra: short,
                tat: tat(1_767_225_600_000_000, 0),
                short: tat(0, 1),
            }),
            Charge::Window(WindowCharge { at: (1 << 52) - 1 }),
            Charge::Quota(QuotaCharge { start_us: 0 }),
            Charge::Quota(QuotaCharge {
                start_us: (1 << 52) - 1,
            }),
        ];
        let client = client(LimitKey::Number(6), ID);
        let receipt = |charge: Charge| {
            let bucket = client.bucket(charge.key());
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
                Charge::Gcra(GcraCharge {
                    gcra,
                    tat: Ticks { us, frac: 6 },
                    short: Ticks::default(),
                }),
            ),
            (
                "1203808081b184e99103008f8397cf6410fa26936f02eb72a97732",
                3,
                Charge::Window(WindowCharge { at: us }),
            ),
            (
                "13ffffffff0f808081b184e9910300d68782ba54ccf56619a91c6237355f6f",
                u32::MAX,
                Charge::Quota(QuotaCharge { start_us: us }),
            ),
        ] {
            let client = client(key.limit, ID);
            let receipt = Receipt::new(client.bucket(charge.key()), charge, cost, false);
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
            let charge = Charge::Gcra(GcraCharge { gcra, tat, short });
            let text = Receipt::new(own.bucket(charge.key()), charge, 9, false).to_text(key);
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
        let charge = Charge::Quota(QuotaCharge { start_us: 5 });
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
