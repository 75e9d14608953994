//! The fields of a JSON object, whose values are kept as they were written.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The most fields of an object. The protocol has about 40.
const MOST: usize = 64;

/// The fields of an object, in order. None occurs twice, so that the gateway and the server behind it read the same.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a>(Vec<(String, Cow<'a, RawValue>)>);

impl<'a> Fields<'a> {
    /// The value of a field; `None` if it is absent or null.
    pub(crate) fn get<'s, T: Deserialize<'s>>(
        &'s self,
        name: &str,
    ) -> Result<Option<T>, serde_json::Error> {
        let field = self.0.iter().find(|(field, _)| field == name);
        field.map_or(Ok(None), |(_, value)| serde_json::from_str(value.get()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Replaces the value of a field, or adds the field.
    pub(crate) fn set(&mut self, name: &str, value: Box<RawValue>) {
        self.0.retain(|(field, _)| field != name);
        self.0.push((name.to_owned(), Cow::Owned(value)));
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields: Vec<(String, Cow<'de, RawValue>)> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if fields.len() == MOST {
                return Err(A::Error::custom(format!("more than {MOST} fields")));
            }
            if fields.iter().any(|(field, _)| *field == name) {
                return Err(A::Error::custom("a field occurs twice"));
            }
            fields.push((name, Cow::Borrowed(map.next_value::<&RawValue>()?)));
        }
        Ok(Fields(fields))
    }
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, &**value)))
    }
}
