//! The file of rules: which requests meet which limit.
//!
//! ```yaml
//! - {limit: requests, key: ip}
//! - {limit: logins, path: /login, method: POST}
//! - {limit: uploads, path: [/upload, /files/*], key: account, cost: 5}
//! ```

use std::{fs, io, path::Path};

use serde::Deserialize;
use thiserror::Error;
use tollgate::{
    Limits,
    limit::NamedLimit,
    rule::{PathError, Paths},
};

use crate::{
    key::{Key, KeyError},
    limit_files::{UnknownLimit, named},
};

/// A rule of the file. Its fields are those of `tollgate::Rule`.
#[derive(Clone, Debug)]
pub(crate) struct FileRule {
    pub(crate) limit: String,
    pub(crate) key: Key,
    /// The paths that it applies to; all if there are none.
    pub(crate) paths: Option<Paths>,
    /// The methods that it applies to; all if there are none.
    pub(crate) methods: Vec<String>,
    pub(crate) cost: u32,
}

/// The error for a file of rules.
#[derive(Debug, Error)]
#[error("{path}: {mistake}")]
pub(crate) struct RulesError {
    path: String,
    #[source]
    mistake: Box<FileMistake>,
}

/// A mistake in a file of rules.
#[derive(Debug, Error)]
enum FileMistake {
    #[error("cannot read it")]
    Read(#[from] io::Error),
    #[error(transparent)]
    Form(#[from] serde_saphyr::Error),
    #[error("it has no rules: write a list such as `- {{limit: requests, key: ip}}`")]
    Empty,
    #[error("rule {0}: {1}")]
    Rule(usize, #[source] RuleMistake),
}

/// A mistake in one rule.
#[derive(Debug, Error)]
enum RuleMistake {
    #[error(transparent)]
    Limit(#[from] UnknownLimit),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("a cost of 0 counts nothing: use at least 1")]
    ZeroCost,
    #[error("a cost of {cost} never fits: the limit admits at most {most} at once")]
    CostAboveBurst { cost: u32, most: u32 },
}

/// A rule as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRule {
    limit: String,
    key: Option<String>,
    path: Option<OneOrMore>,
    method: Option<OneOrMore>,
    cost: Option<u32>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::More(more) => more,
        }
    }
}

/// Reads a file of rules for these limits.
pub(crate) fn read(path: &Path, limits: &Limits, key: &Key) -> Result<Vec<FileRule>, RulesError> {
    read_file(path, limits, key).map_err(|mistake| RulesError {
        path: path.display().to_string(),
        mistake: mistake.into(),
    })
}

fn read_file(path: &Path, limits: &Limits, key: &Key) -> Result<Vec<FileRule>, FileMistake> {
    let written: Vec<WrittenRule> = serde_saphyr::from_str(&fs::read_to_string(path)?)?;
    if written.is_empty() {
        return Err(FileMistake::Empty);
    }
    let rules = (1..).zip(written).map(|(number, rule)| {
        let checked = rule.checked(limits, key);
        checked.map_err(|mistake| FileMistake::Rule(number, mistake))
    });
    rules.collect()
}

/// One rule for each limit, for all requests.
pub(crate) fn for_all(limits: &Limits, key: &Key) -> Vec<FileRule> {
    let rules = limits.iter().map(|named| FileRule {
        limit: named.name.to_string(),
        key: key.clone(),
        paths: None,
        methods: Vec::new(),
        cost: 1,
    });
    rules.collect()
}

impl WrittenRule {
    fn checked(self, limits: &Limits, key: &Key) -> Result<FileRule, RuleMistake> {
        let named = named(limits, &self.limit)?;
        let cost = self.cost.unwrap_or(1);
        check_cost(named, cost)?;
        let key = self.key.map_or_else(|| Ok(key.clone()), |key| key.parse());
        let paths = self.path.map(|paths| Paths::new(paths.into_vec()));
        Ok(FileRule {
            limit: self.limit,
            key: key?,
            paths: paths.transpose()?,
            methods: self.method.map(OneOrMore::into_vec).unwrap_or_default(),
            cost,
        })
    }
}

fn check_cost(named: &NamedLimit, cost: u32) -> Result<(), RuleMistake> {
    let default = named.limit.iter();
    let all = default.chain(named.overrides().map(|own| own.limit));
    let most = all.filter_map(tollgate::Limit::max_cost).min();
    match most {
        _ if cost == 0 => Err(RuleMistake::ZeroCost),
        Some(most) if most < cost => Err(RuleMistake::CostAboveBurst { cost, most }),
        _ => Ok(()),
    }
}
