//! A call, which a request makes to a model.

use std::{str, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::{RawValue, to_raw_value};

use super::{
    fields::Fields, keys::ApiKey, meter::Meter, plan_limits::Chosen, refusal::Refusal, text::Tokens,
};

/// The call of a request, in the request's extensions.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) key: Arc<ApiKey>,
    pub(crate) limits: Chosen,
    /// The tokens that are reserved for it.
    pub(crate) reserved: u32,
    pub(crate) meter: Meter,
    /// Whether the client wants to see the usage of a stream.
    pub(crate) asks_usage: bool,
}

/// The fields of a body that the model does not read.
const SETTINGS: &str = "model stream stream_options user metadata logit_bias service_tier \
    encoding_format reasoning_effort verbosity prompt_cache_key safety_identifier modalities audio";

/// The body of a request.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) model: String,
    /// The estimate of the prompt, in tokens.
    pub(crate) prompt: u32,
    /// The most tokens of an answer, if the client says so.
    most: Option<u64>,
    answers: u64,
    pub(crate) asks_usage: bool,
    /// The body for the server, which has each field once, and asks for the usage of a stream.
    pub(crate) body: Bytes,
}

impl Asked {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let text = str::from_utf8(body).map_err(|_| Refusal::body("the body is not UTF-8"))?;
        let mut fields: Fields<'_> = serde_json::from_str(text).map_err(|error| {
            // The text of an error can quote the body, so the answer contains only the position.
            let (line, column) = (error.line(), error.column());
            Refusal::body(&format!(
                "the body is no JSON object of at most 64 fields, each of them once: line {line}, column {column}"
            ))
        })?;
        let model: Option<String> = field(&fields, "model")?;
        let model = model.ok_or_else(|| Refusal::field("model", "name a model"))?;
        let mut prompt = 0_u32;
        let texts = fields.iter().filter(|(name, _)| !is_setting(name));
        for (name, value) in texts {
            // Other scalars are settings, too.
            if value.get().starts_with(['"', '[', '{']) {
                let tokens = serde_json::from_str::<Tokens>(value.get());
                let tokens = tokens.map_err(|_| Refusal::unreadable(name))?;
                prompt = prompt.saturating_add(tokens.count());
            }
        }
        let most = ["max_tokens", "max_completion_tokens"].map(|name| field::<u64>(&fields, name));
        let [old, new] = most;
        let most = old?.max(new?);
        let each = ["n", "best_of"].map(|name| field::<u64>(&fields, name));
        let [n, best_of] = each;
        let each = n?.max(best_of?).unwrap_or(1).max(1);
        let prompts = field::<Prompts>(&fields, "prompt")?.map_or(1, Prompts::count);
        let answers = each.saturating_mul(prompts);
        let asks_usage = match field::<bool>(&fields, "stream")? {
            Some(true) => ask_usage(&mut fields)?,
            _ => true,
        };
        let body = serde_json::to_vec(&fields).map_err(|_| Refusal::body("the body is no JSON"))?;
        Ok(Self {
            model,
            prompt,
            most,
            answers,
            asks_usage,
            body: body.into(),
        })
    }

    /// The tokens to reserve: those of the prompt, and the most that the answers may take.
    pub(crate) fn reservation(&self, default: u32) -> u32 {
        let most = self.most.unwrap_or(default.into());
        let answers = most.saturating_mul(self.answers);
        let sum = answers.saturating_add(self.prompt.into());
        // A cost of 0 would not be limited.
        u32::try_from(sum).unwrap_or(u32::MAX).max(1)
    }
}

/// A prompt or several, as texts or as ids of tokens. Each has answers of its own.
#[derive(Deserialize)]
#[serde(untagged)]
enum Prompts {
    Ids(#[expect(dead_code, reason = "only its form counts")] Vec<u64>),
    Several(Vec<IgnoredAny>),
    One(IgnoredAny),
}

impl Prompts {
    fn count(self) -> u64 {
        match self {
            Self::Several(prompts) => prompts.len().max(1) as u64,
            Self::Ids(_) | Self::One(_) => 1,
        }
    }
}

fn is_setting(name: &str) -> bool {
    SETTINGS.split(' ').any(|setting| setting == name)
}

/// Asks the server to report the usage in the last event of a stream. Returns whether the client has asked for that itself.
fn ask_usage(fields: &mut Fields<'_>) -> Result<bool, Refusal> {
    const OPTIONS: &str = "stream_options";
    let given: Option<Box<RawValue>> = field(fields, OPTIONS)?;
    let text = given.as_deref().map_or("{}", RawValue::get);
    let mut options: Fields<'_> =
        serde_json::from_str(text).map_err(|_| Refusal::field(OPTIONS, "send an object"))?;
    let asked = field(&options, "include_usage")?.unwrap_or(false);
    options.set("include_usage", raw(&true)?);
    fields.set(OPTIONS, raw(&options)?);
    Ok(asked)
}

fn raw(value: &impl serde::Serialize) -> Result<Box<RawValue>, Refusal> {
    to_raw_value(value).map_err(|_| Refusal::body("the body is no JSON"))
}

fn field<'s, T: Deserialize<'s>>(
    fields: &'s Fields<'_>,
    name: &'static str,
) -> Result<Option<T>, Refusal> {
    let value = fields.get(name);
    value.map_err(|_| Refusal::field(name, "it has the wrong type"))
}
