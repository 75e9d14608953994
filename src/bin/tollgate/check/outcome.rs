//! The outcome of a check: valid files and their clients, or a mistake.

use serde::Serialize;
use serde_json::json;
use tollgate::{Limits, limit::LimitsError};

use super::summary::Summary;
use crate::{client::Client, limit_files::named};

/// Writes the requested clients or, without any, a summary of all limits.
pub(super) fn outcome(
    limits: &Limits,
    clients: &[[String; 2]],
    is_json: bool,
) -> Result<String, Mistake> {
    if clients.is_empty() {
        let summary = Summary::of(limits);
        let Summary { limits, overrides } = &summary;
        return Ok(match is_json {
            true => json!({"ok": true, "limits": limits, "overrides": overrides}).to_string(),
            false => summary.to_string(),
        });
    }
    let clients = clients.iter().map(|[limit, id]| client(limits, limit, id));
    let clients: Vec<_> = clients.collect::<Result<_, _>>()?;
    Ok(match is_json {
        true => json!({"ok": true, "clients": clients}).to_string(),
        false => clients.iter().map(text).collect::<Vec<_>>().join("\n"),
    })
}

fn client(limits: &Limits, limit: &str, id: &str) -> Result<Client, Mistake> {
    let mistake = |message| Mistake {
        message,
        file: None,
        line: None,
        limit: Some(limit.to_owned()),
        id: Some(id.to_owned()),
    };
    let named = named(limits, limit).map_err(|error| mistake(error.to_string()))?;
    Client::look_up(limits, named, id).map_err(|error| mistake(format!("limit `{limit}`: {error}")))
}

fn text(client: &Client) -> String {
    let Client {
        limit,
        id,
        key,
        summary,
        ..
    } = client;
    let from = match &client.own {
        None if client.values.is_none() => "neither a default nor an override".to_owned(),
        None => "the default".to_owned(),
        Some(own) => {
            let comment = own.comment.as_ref();
            let comment = comment.map_or_else(String::new, |comment| format!(" ({comment})"));
            format!("the override for `{}`{comment}", own.id)
        }
    };
    let shadow = match client.shadow {
        true => "\n  shadow mode: it refuses nobody",
        false => "",
    };
    let bound = client.bound.as_ref();
    let bound = bound.map_or_else(String::new, |bound| format!("\n  at most: {bound}"));
    format!("{limit} {id}\n  limit: {summary}{bound}\n  from: {from}\n  bucket: {key}{shadow}")
}

/// The mistake, and its place.
#[derive(Debug, Serialize)]
pub(super) struct Mistake {
    message: String,
    file: Option<String>,
    line: Option<u64>,
    limit: Option<String>,
    id: Option<String>,
}

impl Mistake {
    pub(super) fn write(&self, is_json: bool) -> String {
        match is_json {
            false => format!("tollgate: {}", self.message),
            true => json!({"ok": false, "error": self}).to_string(),
        }
    }
}

impl From<LimitsError> for Mistake {
    fn from(error: LimitsError) -> Self {
        Self {
            message: error.to_string(),
            file: error.path().map(|path| path.display().to_string()),
            line: error.line(),
            limit: error.limit().map(str::to_owned),
            id: error.id().map(str::to_owned),
        }
    }
}
