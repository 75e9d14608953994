//! Limits in the form of files, for any serializer.

use std::{collections::BTreeMap, iter};

use serde::{Serialize, Serializer};

use super::{
    limit::Limit,
    limits::{Limits, NamedLimit},
    notation::word,
    overrides::Override,
};
use crate::{algorithm::WrittenFields, id::IdFormat};

impl Limits {
    /// Returns the defaults in the form of a file.
    ///
    /// ```
    /// use tollgate::{Limit, Limits};
    ///
    /// let limits = Limits::builder().limit("requests", Limit::per_second(10)).build()?;
    /// let json = serde_json::to_string(&limits.as_defaults()).expect("it is JSON");
    /// assert_eq!(json, r#"{"requests":{"burst":10,"count":10,"period":"1s"}}"#);
    /// # Ok::<_, tollgate::limit::LimitsError>(())
    /// ```
    #[must_use]
    pub fn as_defaults(&self) -> impl Serialize {
        WrittenDefaults(self)
    }

    /// Returns the overrides in the list form of a file.
    #[must_use]
    pub fn as_overrides(&self) -> impl Serialize {
        WrittenOverrides(self)
    }
}

impl Limit {
    /// Returns the values of the limit in the form of a file.
    ///
    /// ```
    /// use tollgate::{Limit, quota::Per};
    ///
    /// let json = serde_json::to_string(&Limit::quota(1000, Per::Day).as_values());
    /// assert_eq!(json.ok().as_deref(), Some(r#"{"quota":1000,"per":"day"}"#));
    /// ```
    #[must_use]
    pub fn as_values(&self) -> impl Serialize + use<> {
        values(self)
    }
}

struct WrittenDefaults<'a>(&'a Limits);

impl Serialize for WrittenDefaults<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Lists of blocked clients exist in code only.
        let named = self.0.iter().filter(|named| !named.name.is_block());
        serializer.collect_map(named.map(|named| (named.name.as_str(), WrittenLimit::new(named))))
    }
}

#[derive(Serialize)]
struct WrittenLimit<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shadow: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    docs: Option<&'a str>,
    #[serde(flatten)]
    values: Option<WrittenFields>,
}

impl<'a> WrittenLimit<'a> {
    fn new(named: &'a NamedLimit) -> Self {
        let format = Some(named.name.format()).filter(|format| *format != IdFormat::default());
        Self {
            number: named.name.number(),
            id: format.map(IdFormat::name),
            shadow: named.name.is_shadow(),
            lease: named.name.leased().map(|share| share.to_string()),
            description: named.name.described(),
            docs: named.name.documented(),
            values: named.limit.as_ref().map(values),
        }
    }
}

fn values(limit: &Limit) -> WrittenFields {
    match limit.algorithm() {
        Some(algorithm) => algorithm.values(),
        None => WrittenFields::default().flag(word(limit), true),
    }
}

struct WrittenOverrides<'a>(&'a Limits);

impl Serialize for WrittenOverrides<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().flat_map(items))
    }
}

/// Returns a name's overrides, each as a map with the name as its only key. Equal ones that follow each other are one item.
fn items(named: &NamedLimit) -> impl Iterator<Item = BTreeMap<&str, WrittenOverride<'_>>> {
    let mut rest = named.overrides().peekable();
    iter::from_fn(move || {
        let first = rest.next()?;
        let same = iter::from_fn(|| rest.next_if(|next| next.limit == first.limit));
        let item = WrittenOverride {
            values: values(first.limit),
            ids: iter::once(first).chain(same).map(WrittenId::new).collect(),
        };
        Some(BTreeMap::from([(named.name.as_str(), item)]))
    })
}

#[derive(Serialize)]
struct WrittenOverride<'a> {
    #[serde(flatten)]
    values: WrittenFields,
    ids: Vec<WrittenId<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WrittenId<'a> {
    Id(&'a str),
    Commented { id: &'a str, comment: &'a str },
}

impl<'a> WrittenId<'a> {
    fn new(own: Override<'a>) -> Self {
        let id = own.id;
        own.comment
            .map_or(Self::Id(id), |comment| Self::Commented { id, comment })
    }
}
