//! The file of keys and models, which is read again when it changes.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use http::{HeaderMap, header::AUTHORIZATION};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::{sync::Semaphore, task, time};

use super::plan_limits::PlanLimits;

/// A customer's key. The file contains only a hash of its text.
#[derive(Debug)]
pub(crate) struct ApiKey {
    pub(crate) id: String,
    pub(crate) plan: String,
    /// Permits for the bodies that are read at the same time. Other bodies wait unread.
    pub(crate) bodies: Semaphore,
}

/// The bodies of a key that are read at the same time.
const BODIES: usize = 16;

/// A model that calls can name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    pub(crate) name: String,
    pub(crate) class: Option<String>,
    /// The tokens to reserve for an answer if the call does not limit its length.
    pub(crate) max_tokens: u32,
    /// The price of a prompt's token that the server has cached, in per cent of another one's.
    #[serde(default = "whole")]
    pub(crate) cached_percent: u32,
}

const fn whole() -> u32 {
    100
}

/// The content of the file.
#[derive(Debug)]
pub(crate) struct Keys {
    keys: HashMap<[u8; 32], Arc<ApiKey>>,
    models: Vec<Model>,
}

/// The keys in force.
#[derive(Debug)]
pub(crate) struct LiveKeys {
    path: PathBuf,
    plans: PlanLimits,
    in_force: ArcSwap<Keys>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    models: Vec<Model>,
    keys: Vec<KeyLine>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyLine {
    id: String,
    plan: String,
    sha256: String,
}

/// The error for a file of keys.
#[derive(Debug, Error)]
#[error("{}: {problem}", path.display())]
pub(crate) struct KeysError {
    path: PathBuf,
    #[source]
    problem: Problem,
}

#[derive(Debug, Error)]
enum Problem {
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Yaml(#[from] Box<serde_saphyr::Error>),
    #[error("the key of `{0}` is no hash: write the 64 digits of `printf %s \"$KEY\" | sha256sum`")]
    Hash(String),
    #[error("the key of `{0}` has no id: name its owner")]
    NoId(String),
    #[error("`{0}` occurs twice: remove one of them")]
    Twice(String),
    #[error("no limit belongs to the plan `{0}`: add `{0}.requests` to the limits, and restart")]
    Plan(String),
    #[error("no limit is for models of the class `{0}`: add one to the limits, and restart")]
    Class(String),
}

impl Keys {
    /// Finds the key of a request, whose `Authorization` is `Bearer` and the key.
    pub(crate) fn of(&self, headers: &HeaderMap) -> Option<&Arc<ApiKey>> {
        let mut fields = headers.get_all(AUTHORIZATION).iter();
        let (Some(field), None) = (fields.next(), fields.next()) else {
            return None;
        };
        let (scheme, key) = field.to_str().ok()?.split_once(' ')?;
        let is_bearer = scheme.eq_ignore_ascii_case("bearer");
        let hash: [u8; 32] = Sha256::digest(key.trim()).into();
        self.keys.get(&hash).filter(|_| is_bearer)
    }

    pub(crate) fn model(&self, name: &str) -> Option<&Model> {
        self.models.iter().find(|model| model.name == name)
    }

    pub(crate) fn models(&self) -> impl Iterator<Item = &Model> {
        self.models.iter()
    }

    fn parse(text: &str, plans: &PlanLimits) -> Result<Self, Problem> {
        let options = serde_saphyr::options! { with_snippet: false };
        let file: File = serde_saphyr::from_str_with_options(text, options).map_err(Box::new)?;
        for (i, model) in file.models.iter().enumerate() {
            if file.models[..i]
                .iter()
                .any(|other| other.name == model.name)
            {
                return Err(Problem::Twice(model.name.clone()));
            }
            match &model.class {
                Some(class) if !plans.has_class(class) => {
                    return Err(Problem::Class(class.clone()));
                }
                _ => {}
            }
        }
        let mut keys = HashMap::new();
        for KeyLine { id, plan, sha256 } in file.keys {
            let hash = hash(&sha256).ok_or_else(|| Problem::Hash(id.clone()))?;
            if id.is_empty() {
                return Err(Problem::NoId(sha256));
            }
            if !plans.has_plan(&plan) {
                return Err(Problem::Plan(plan));
            }
            let bodies = Semaphore::new(BODIES);
            let key = Arc::new(ApiKey { id, plan, bodies });
            if let Some(other) = keys.insert(hash, key) {
                return Err(Problem::Twice(format!("the key of {}", other.id)));
            }
        }
        Ok(Self {
            keys,
            models: file.models,
        })
    }
}

fn hash(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    let is_hex = digits.len() == 64 && digits.iter().all(u8::is_ascii_hexdigit);
    let byte = |i: usize| u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
    bytes.filter(|_| is_hex)?.try_into().ok()
}

impl LiveKeys {
    pub(crate) fn read(path: &Path, plans: PlanLimits) -> Result<Arc<Self>, KeysError> {
        let read = || Keys::parse(&fs::read_to_string(path)?, &plans);
        let keys = read().map_err(|problem| KeysError {
            path: path.into(),
            problem,
        })?;
        Ok(Arc::new(Self {
            path: path.into(),
            plans,
            in_force: ArcSwap::from_pointee(keys),
        }))
    }

    pub(crate) fn in_force(&self) -> Arc<Keys> {
        self.in_force.load_full()
    }

    pub(crate) fn plans(&self) -> &PlanLimits {
        &self.plans
    }

    /// Reads the file again and again. A file with a mistake is logged once, and the keys stay as they are.
    pub(crate) async fn follow(self: Arc<Self>, every: Duration) {
        let mut last = None;
        loop {
            time::sleep(every).await;
            let path = self.path.clone();
            let read = task::spawn_blocking(move || fs::read_to_string(path)).await;
            let text = read.unwrap_or_else(|error| Err(io::Error::other(error)));
            let found = text.as_ref().map_err(ToString::to_string).cloned();
            if last.replace(found.clone()) == Some(found) {
                continue;
            }
            let parsed = text.map_err(Problem::from);
            match parsed.and_then(|text: String| Keys::parse(&text, &self.plans)) {
                Ok(keys) => self.in_force.store(Arc::new(keys)),
                Err(problem) => {
                    tracing::error!(path = %self.path.display(), %problem, "the keys stay as they were");
                }
            }
        }
    }
}
