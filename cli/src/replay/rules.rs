//! Selects the limits that a request meets, by a file of rules or for all limits.
//!
//! ```yaml
//! - {limit: requests, key: ip}
//! - {limit: logins, path: /login, method: POST}
//! - {limit: uploads, path: [/upload, /files/*], key: account, cost: 5}
//! ```

use std::{fs, path::Path};

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use http::{Request, request::Parts, uri::PathAndQuery};
use serde::Deserialize;
use tollgate::{
    Limit, Limits, backend::custom::AlgorithmKey, id::IdFormat, limit::NamedLimit, rule::paths,
};

use crate::{
    limits::{all_of, named},
    log::{Key, NeededParts, Record},
};

/// A condition of `tollgate::Rule`.
pub(super) type RequestCondition = dyn Fn(&Parts) -> bool;

/// The rules that requests may meet.
#[derive(Default)]
pub(super) struct ReplayRules {
    pub(super) rules: Vec<ReplayRule>,
    /// The names of their limits.
    pub(super) limits: Vec<String>,
    /// The limits whose clients cannot be found in a log.
    pub(super) left_out: Vec<String>,
}

/// A rule. Its settings are those of `tollgate::Rule`.
pub(super) struct ReplayRule {
    /// The index of the limit in [`Rules::limits`].
    pub(super) limit: usize,
    pub(super) format: IdFormat,
    pub(super) cost: u32,
    /// The index of the client's id in a record.
    key: usize,
    pub(super) paths: Option<Box<RequestCondition>>,
    pub(super) methods: Vec<String>,
}

/// A rule as it is written.
#[derive(Default, Deserialize)]
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

impl ReplayRules {
    /// Reads a file of rules, and adds what they need of a line to `needed`.
    pub(super) fn read(
        path: &Path,
        limits: &Limits,
        key: &Key,
        needed: &mut NeededParts,
    ) -> Result<Self> {
        let file = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("{file}: cannot read it"))?;
        let written: Vec<WrittenRule> =
            serde_saphyr::from_str(&text).map_err(|error| anyhow!("{file}: {error}"))?;
        if written.is_empty() {
            bail!("{file}: it has no rules: write a list such as `- {{limit: requests, key: ip}}`");
        }
        let mut rules = Self::default();
        for (number, rule) in (1..).zip(written) {
            let added =
                named(limits, &rule.limit).and_then(|named| rules.add(named, rule, key, needed));
            added.with_context(|| format!("{file}: rule {number}"))?;
        }
        Ok(rules)
    }

    /// Creates one rule for each limit, for all requests.
    pub(super) fn for_all(limits: &Limits, key: &Key, needed: &mut NeededParts) -> Self {
        let mut rules = Self::default();
        for named in limits.iter() {
            let rule = rules.add(named, WrittenRule::default(), key, needed);
            rule.expect("it has nothing that could be wrong");
        }
        rules
    }

    fn add(
        &mut self,
        named: &NamedLimit,
        rule: WrittenRule,
        key: &Key,
        needed: &mut NeededParts,
    ) -> Result<()> {
        let name = named.name().to_owned();
        let format = named.format();
        if all_of(named).any(|limit| limit.algorithm_key() == Some(AlgorithmKey::Concurrency)) {
            self.left_out.push(name);
            return Ok(());
        }
        let cost = rule.cost.unwrap_or(1);
        match all_of(named).filter_map(Limit::max_cost).min() {
            _ if cost == 0 => bail!("a cost of 0 counts nothing: use at least 1"),
            Some(most) if most < cost => {
                bail!("a cost of {cost} never fits: the limit admits at most {most} at once")
            }
            _ => {}
        }
        let own = rule.key.map(|key| key.parse()).transpose();
        let key = match own.map_err(Error::msg)?.unwrap_or_else(|| key.clone()) {
            // The ids of a limit with this format are ranges.
            Key::Ip if format == IdFormat::Ipv6Range => Key::Range,
            key => key,
        };
        let paths = rule
            .path
            .map(|paths| one_of(paths.into_vec()))
            .transpose()?;
        let methods = rule.method.map(OneOrMore::into_vec).unwrap_or_default();
        needed.request |= paths.is_some() || !methods.is_empty();
        let known = self.limits.iter().position(|known| *known == name);
        let limit = known.unwrap_or_else(|| {
            self.limits.push(name);
            self.limits.len() - 1
        });
        self.rules.push(ReplayRule {
            limit,
            format,
            cost,
            key: needed.key(key),
            paths,
            methods,
        });
        Ok(())
    }
}

impl ReplayRule {
    /// Returns the id of the client, if the rule applies to the request.
    pub(super) fn client_of<'a>(&self, record: &'a Record) -> Option<&'a str> {
        let is_method = self.methods.is_empty() || self.methods.contains(&record.method);
        let is_path =
            |paths: &RequestCondition| head(&record.path).is_some_and(|request| paths(&request));
        let applies = is_method && self.paths.as_deref().is_none_or(is_path);
        record.ids[self.key].as_deref().filter(|_| applies)
    }
}

/// Returns the condition for requests with one of these paths. Mistakes are checked first, because [`paths`] would panic.
fn one_of(patterns: Vec<String>) -> Result<Box<RequestCondition>> {
    let is_plain = paths(["/*"]);
    for pattern in &patterns {
        let above = pattern.strip_suffix("/*").unwrap_or(pattern);
        let whole = head(pattern).filter(|request| request.uri.path() == pattern);
        let is_path = whole.is_some_and(|request| pattern == "/" || is_plain(&request));
        ensure!(
            is_path && !above.contains(['{', '*']),
            "the path `{pattern}` matches no request: begin it with `/`, end it with `/*` for all that lies below, and write \
             no braces, query, empty or dot segments, parameters, backslashes and needless escapes"
        );
    }
    Ok(Box::new(paths(patterns)))
}

/// Returns the head of a request with this path; `None` if no request can have it.
fn head(path: &str) -> Option<Parts> {
    let path = PathAndQuery::try_from(path).ok()?;
    let request = Request::builder().uri(path).body(()).ok()?;
    Some(request.into_parts().0)
}
