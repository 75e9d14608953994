//! The text in a JSON value, which is counted without keeping it.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// The number of bytes of all texts in a value, except those of roles, types and ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextBytes(u64);

impl TextBytes {
    /// The estimate of the tokens: one for each four bytes begun.
    pub(crate) fn tokens(self) -> u32 {
        u32::try_from(self.0.div_ceil(4)).unwrap_or(u32::MAX)
    }
}

impl<'de> Deserialize<'de> for TextBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Counter)
    }
}

struct Counter;

impl<'de> Visitor<'de> for Counter {
    type Value = TextBytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<TextBytes, E> {
        Ok(TextBytes(text.len() as u64))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<TextBytes, A::Error> {
        let mut sum = TextBytes::default();
        while let Some(TextBytes(bytes)) = values.next_element()? {
            sum.0 += bytes;
        }
        Ok(sum)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<TextBytes, A::Error> {
        let mut sum = TextBytes::default();
        while let Some(name) = fields.next_key::<String>()? {
            if ["role", "type", "id"].contains(&&*name) {
                fields.next_value::<IgnoredAny>()?;
            } else {
                let TextBytes(bytes) = fields.next_value()?;
                sum.0 += bytes;
            }
        }
        Ok(sum)
    }

    fn visit_bool<E>(self, _: bool) -> Result<TextBytes, E> {
        Ok(TextBytes::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<TextBytes, E> {
        Ok(TextBytes::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<TextBytes, E> {
        Ok(TextBytes::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<TextBytes, E> {
        Ok(TextBytes::default())
    }

    fn visit_unit<E>(self) -> Result<TextBytes, E> {
        Ok(TextBytes::default())
    }
}
