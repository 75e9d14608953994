//! Estimates the tokens in a JSON value without keeping the value.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};

/// Names and values of the protocol, which do not count as text.
const PROTOCOL: &str = "role content type text system developer user assistant tool \
    function object properties description parameters name";

fn is_of_protocol(word: &str) -> bool {
    PROTOCOL.split(' ').any(|known| known == word)
}

/// The estimate of the tokens in a value: one for each number, and one for each four bytes begun of a text, `true`, `false` or
/// `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens(u64);

impl Tokens {
    /// The estimate for a text, or for bytes that cannot be read.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(bytes.len().div_ceil(4) as u64)
    }

    pub(crate) fn count(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Counter)
    }
}

struct Counter;

impl<'de> Visitor<'de> for Counter {
    type Value = Tokens;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Tokens, E> {
        Ok(Tokens::of(text.as_bytes()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Tokens, A::Error> {
        let mut sum = 0;
        while let Some(Tokens(tokens)) = values.next_element()? {
            sum += tokens;
        }
        Ok(Tokens(sum))
    }

    /// Names count, too, as the model reads those of a schema.
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Tokens, A::Error> {
        let mut sum = 0;
        while let Some(name) = fields.next_key::<String>()? {
            if !is_of_protocol(&name) {
                sum += Tokens::of(name.as_bytes()).0;
            }
            sum += match &*name {
                "role" | "type" => fields.next_value::<Word>()?.0,
                _ => fields.next_value::<Tokens>()?.0,
            };
        }
        Ok(Tokens(sum))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tokens, E> {
        Ok(Tokens::of(value.to_string().as_bytes()))
    }

    /// The number can be the id of a token.
    fn visit_i64<E>(self, _: i64) -> Result<Tokens, E> {
        Ok(Tokens(1))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tokens, E> {
        Ok(Tokens(1))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tokens, E> {
        Ok(Tokens(1))
    }

    fn visit_unit<E>(self) -> Result<Tokens, E> {
        Ok(Tokens::of(b"null"))
    }
}

/// The estimate for a value that is free if it is a word of the protocol.
struct Word(u64);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let is_free = value.as_str().is_some_and(is_of_protocol);
        let counted = || serde_json::from_value::<Tokens>(value).unwrap_or_default();
        Ok(Self(if is_free { 0 } else { counted().0 }))
    }
}
