//! The result of `suggest`, as JSON, tables or a page.

use std::fmt::Write;

use serde::Serialize;

use super::{page, suggest_page};
use crate::{
    args::ReportArgs,
    bound::Bound,
    failure::Failure,
    output::{grouped, instant, number, percent, print, print_json, table, warn},
    suggest::{Candidate, Kind, Recommendation, Suggestion},
};

/// What `--json` prints. It is an interface: `docs/command.md` describes it.
#[derive(Serialize)]
struct Json {
    clients: u64,
    recommendations: Vec<JsonRecommendation>,
}

#[derive(Serialize)]
struct JsonRecommendation {
    #[serde(flatten)]
    values: JsonValues,
    limit: String,
    clients_denied: u64,
    denied: u64,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum JsonValues {
    Gcra {
        burst: u32,
        count: u32,
        period_us: u64,
    },
    Window {
        units: u32,
        window_us: u64,
    },
    Quota {
        quota: u32,
        per: String,
    },
}

/// Writes the result in the requested forms.
pub(crate) fn suggested(suggestion: &Suggestion, args: &ReportArgs) -> Result<(), Failure> {
    warn(&suggestion.end, &suggestion.notes);
    if let Some(path) = &args.html {
        let body = suggest_page::body(suggestion, args.top);
        page::write(path, "Limits for this traffic", &body)?;
    }
    match args.json {
        true => print_json(&Json::of(suggestion)),
        false => print(&text(suggestion, args.top)),
    }
}

impl Json {
    fn of(suggestion: &Suggestion) -> Self {
        let recommendations = suggestion.recommendations.iter();
        Self {
            clients: suggestion.measured.clients,
            recommendations: recommendations.map(JsonRecommendation::of).collect(),
        }
    }
}

impl JsonRecommendation {
    fn of(recommendation: &Recommendation) -> Self {
        let choice = &recommendation.choice;
        let size = choice.size;
        Self {
            values: match choice.candidate {
                Candidate::Rate { count, period_us } => JsonValues::Gcra {
                    burst: size,
                    count,
                    period_us,
                },
                Candidate::Window { us } => JsonValues::Window {
                    units: size,
                    window_us: us,
                },
                Candidate::Period { unit, .. } => JsonValues::Quota {
                    quota: size,
                    per: unit.to_string(),
                },
            },
            limit: recommendation.limit.to_string(),
            clients_denied: recommendation.clients.len() as u64,
            denied: recommendation.denied,
        }
    }
}

fn text(suggestion: &Suggestion, top: usize) -> String {
    let mut text = String::new();
    let _ = write!(text, "{}; ", suggestion.end.sentence());
    if suggestion.measured.clients == 0 {
        text.push_str("no requests\n");
        return text;
    }
    let _ = writeln!(
        text,
        "{}\n{}\n",
        suggestion.traffic(),
        suggestion.allowance()
    );
    let _ = writeln!(text, "{}\n", curve(suggestion));
    for recommendation in &suggestion.recommendations {
        add_recommendation(&mut text, suggestion, recommendation, top);
    }
    text
}

/// The smallest bursts for each rate.
fn curve(suggestion: &Suggestion) -> comfy_table::Table {
    let measured = &suggestion.measured;
    let at_most = usize::try_from(suggestion.at_most).unwrap_or(usize::MAX);
    let mut curve = table([
        "rate",
        "burst that denies at most the share",
        "that denies nobody",
    ]);
    for (place, candidate) in Kind::Gcra.candidates() {
        curve.add_row([
            candidate.words().into(),
            number(grouped(measured.need(place, at_most).max(1))),
            number(grouped(measured.need(place, 0).max(1))),
        ]);
    }
    curve
}

fn add_recommendation(
    text: &mut String,
    suggestion: &Suggestion,
    recommendation: &Recommendation,
    top: usize,
) {
    let Recommendation {
        choice,
        limit,
        denied,
        clients,
    } = recommendation;
    let measured = &suggestion.measured;
    let stopped = clients.len() as u64;
    let _ = writeln!(
        text,
        "{limit}\n  denies {} of {} requests ({}) by {} ({})\n  reason: {}",
        grouped(*denied),
        grouped(measured.requests),
        percent(*denied, measured.requests),
        counted(stopped),
        percent(stopped, measured.clients),
        choice.reason,
    );
    if let Some(bound) = Bound::of(limit) {
        let _ = writeln!(text, "  admits at most {bound}");
    }
    let _ = writeln!(text, "  {}", recommendation.file_line(&suggestion.key));
    for (client, denials) in clients.iter().take(top) {
        let _ = writeln!(
            text,
            "    {}: {} denied since {}",
            suggestion.names.of(*client),
            grouped(denials.denied),
            instant(denials.first)
        );
    }
    text.push('\n');
}

fn counted(clients: u64) -> String {
    match clients {
        1 => "1 client".to_owned(),
        clients => format!("{} clients", grouped(clients)),
    }
}
