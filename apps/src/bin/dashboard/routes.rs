//! The routes of the page: its files for everybody, and its data for operators with the token.

use axum::{
    Json, Router,
    extract::{Query, State, rejection::QueryRejection},
    middleware,
    response::Html,
    routing::get,
};
use serde::Deserialize;
use tollgate::Limiter;

use crate::{
    admin,
    counters::Counters,
    denied::{DeniedClients, Ids},
    figures::Figures,
    history::History,
    page,
    refusal::Refusal,
    token::Token,
};

/// The source of all figures on the page. Clones share it.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) limiter: Limiter,
    pub(crate) counters: Counters,
    pub(crate) history: History,
    pub(crate) denied: DeniedClients,
}

/// The page at `/`, its figures at `/figures`, and the routes of the app `inspect` below `/inspect`.
///
/// The page's files contain no secrets. A browser cannot send the token with them, so it asks for the token and sends it with every
/// other request. It uses no cookie, so other sites cannot make the browser send the token.
pub(crate) fn router(sources: Sources, token: Token) -> Router {
    let inspect = admin::router(sources.limiter.clone(), token.clone());
    let guarded = Router::new()
        .route("/figures", get(figures))
        .layer(middleware::from_fn_with_state(token, admin::authorize))
        .with_state(sources);
    Router::new()
        .route("/", get(Html(include_str!("page.html"))))
        .route("/look.css", get(page::look()))
        .route("/page.css", get(page::style(include_str!("page.css"))))
        .route("/page.js", get(page::script(include_str!("page.js"))))
        .route("/bucket.js", get(page::script(include_str!("bucket.js"))))
        .route("/words.js", get(page::script(include_str!("words.js"))))
        .merge(guarded)
        .nest("/inspect", inspect)
        .layer(middleware::from_fn(page::confine))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shown {
    /// Whether the operator has asked for the clients' ids.
    #[serde(default)]
    ids: bool,
}

async fn figures(
    State(sources): State<Sources>,
    shown: Result<Query<Shown>, QueryRejection>,
) -> Result<Json<Figures>, Refusal> {
    let Query(shown) =
        shown.map_err(|error| Refusal::bad_request("invalid_query", error.body_text()))?;
    let ids = if shown.ids { Ids::Shown } else { Ids::Redacted };
    Ok(Json(Figures::now(&sources, ids)))
}
