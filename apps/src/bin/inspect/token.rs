//! The secret that each request must contain.

use std::{
    env::{self, VarError},
    error::Error,
    fmt,
    hint::black_box,
};

use axum::http::{HeaderMap, header::AUTHORIZATION};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// The least length of a secret, in bytes.
const SHORTEST: usize = 16;

/// A bearer token. Only its hash is kept.
#[derive(Clone)]
pub(crate) struct Token([u8; 32]);

impl Token {
    /// The token in `ADMIN_TOKEN`, if that is set.
    pub(crate) fn from_env() -> Result<Option<Self>, Box<dyn Error>> {
        match env::var("ADMIN_TOKEN") {
            Ok(secret) => Ok(Some(Self::new(&secret)?)),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => Err("ADMIN_TOKEN is not UTF-8".into()),
        }
    }

    pub(crate) fn new(secret: &str) -> Result<Self, TokenError> {
        match secret.len() {
            SHORTEST.. if secret.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Ok(Self(hash(secret.as_bytes())))
            }
            SHORTEST.. => Err(TokenError::Characters),
            _ => Err(TokenError::Short),
        }
    }

    /// Returns whether a request contains it, as `Authorization: Bearer <token>`, exactly once.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return false;
        };
        let Some((scheme, brought)) = value.as_bytes().split_at_checked(BEARER.len()) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(BEARER) && self.is(brought)
    }

    /// Compares all bytes of the hashes, so that the time reveals nothing about the secret or its length.
    fn is(&self, brought: &[u8]) -> bool {
        let pairs = self.0.into_iter().zip(hash(brought));
        let differences = pairs.fold(0, |all, (ours, theirs)| black_box(all | (ours ^ theirs)));
        differences == 0
    }
}

const BEARER: &[u8] = b"Bearer ";

fn hash(text: &[u8]) -> [u8; 32] {
    Sha256::digest(text).into()
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// The error for an invalid secret.
#[derive(Debug, Error)]
pub(crate) enum TokenError {
    #[error(
        "ADMIN_TOKEN has less than {SHORTEST} characters: make one, as by `openssl rand -hex 32`"
    )]
    Short,
    #[error(
        "ADMIN_TOKEN has characters that no header takes: use ASCII letters, digits and signs, without spaces"
    )]
    Characters,
}
