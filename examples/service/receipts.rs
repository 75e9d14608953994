//! Receipts as text for callers, bound to their limit and client. The text is not secret, and is not protected against forgery.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use tollgate::{Limiter, Limits, limiter::LimiterError, transaction::Receipt};

const HASH_BYTES: usize = 16;

/// Writes the receipt of a charge; `None` if a reload has removed its limit meanwhile.
pub(crate) fn write(limits: &Limits, limit: &str, id: &str, receipt: &Receipt) -> Option<String> {
    let mut bytes = serde_json::to_vec(receipt).ok()?;
    let hash = hash(&bytes, &client(limits, limit, id).ok()??);
    bytes.splice(..0, hash);
    Some(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// Reads a receipt that [`write`] has written for this limit and client, in this process or in another one.
pub(crate) fn read(
    limiter: &Limiter,
    limit: &str,
    id: &str,
    text: &str,
) -> Result<Receipt, LimiterError> {
    let limits = limiter.limits();
    let Some(client) = client(&limits, limit, id)? else {
        return Err(limiter.limit(limit).err().unwrap_or_else(|| foreign(limit)));
    };
    parse(text, &client).ok_or_else(|| foreign(limit))
}

fn parse(text: &str, client: &str) -> Option<Receipt> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    let (hashed, receipt) = bytes.split_at_checked(HASH_BYTES)?;
    let is_own = hash(receipt, client) == *hashed;
    serde_json::from_slice(receipt).ok().filter(|_| is_own)
}

fn foreign(limit: &str) -> LimiterError {
    LimiterError::InvalidReceipt {
        limit: limit.to_owned(),
        reason: "the text is not a receipt of this limit and this id: send it as it was received",
    }
}

/// Returns the key of a client under a limit, whatever the algorithm in force; `None` if the limit is not known.
fn client(limits: &Limits, limit: &str, id: &str) -> Result<Option<String>, LimiterError> {
    let Some(named) = limits.get(limit) else {
        return Ok(None);
    };
    let folded = named.format().fold(id);
    let folded = folded.map_err(|source| LimiterError::InvalidId {
        limit: limit.to_owned(),
        source,
    })?;
    let number = named.number().map(|number| number.to_string());
    let limit = number.unwrap_or_else(|| named.name().to_owned());
    Ok(Some(format!("{limit}:{}", folded.as_str())))
}

fn hash(receipt: &[u8], client: &str) -> [u8; HASH_BYTES] {
    let mut hash = Sha256::new();
    for part in [receipt, client.as_bytes()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut short = [0; HASH_BYTES];
    short.copy_from_slice(&hash.finalize()[..HASH_BYTES]);
    short
}
