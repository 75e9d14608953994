//! The routes: a page of a few files, and simulations as JSON.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{
        DefaultBodyLimit, Path, Query, State,
        rejection::{JsonRejection, QueryRejection},
    },
    http::StatusCode,
    middleware,
    response::Html,
    routing::{delete, get, post},
};
use serde::{Deserialize, Serialize};

use crate::{
    config::Config,
    page,
    patterns::{self, Pattern},
    refusal::Refusal,
    sessions::Sessions,
    simulation::{Seen, Simulation, Step},
};

/// The longest body that is read, in bytes.
const MAX_BODY: usize = 1 << 16;

pub(crate) fn router() -> Router {
    Router::new()
        .route("/", get(Html(include_str!("page.html"))))
        .route("/look.css", get(page::look()))
        .route("/page.css", get(page::style(include_str!("page.css"))))
        .route("/page.js", get(page::script(include_str!("page.js"))))
        .route("/plain.js", get(page::script(include_str!("plain.js"))))
        .route(
            "/settings.js",
            get(page::script(include_str!("settings.js"))),
        )
        .route(
            "/timeline.js",
            get(page::script(include_str!("timeline.js"))),
        )
        .route("/patterns", get(list_patterns))
        .route("/simulations", post(start))
        .route("/simulations/{id}", delete(end))
        .route("/simulations/{id}/steps", post(take_steps))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn(page::confine))
        .with_state(Arc::new(Sessions::default()))
}

async fn list_patterns() -> Json<[Pattern; 4]> {
    Json(patterns::all())
}

#[derive(Serialize)]
struct Started {
    id: String,
    config: Config,
    seen: Seen,
}

/// Starts a simulation with the configuration in the query.
async fn start(
    State(sessions): State<Arc<Sessions>>,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<(StatusCode, Json<Started>), Refusal> {
    let Query(query) = query?;
    let config = Config::of(&query);
    let simulation = Simulation::new(&config).map_err(|error| Refusal::of(&error, &config))?;
    let seen = simulation.look();
    let id = sessions.start(simulation)?;
    Ok((StatusCode::CREATED, Json(Started { id, config, seen })))
}

/// Forgets a simulation, if it exists.
async fn end(State(sessions): State<Arc<Sessions>>, Path(id): Path<String>) -> StatusCode {
    sessions.end(&id);
    StatusCode::NO_CONTENT
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Steps {
    steps: Vec<Step>,
}

/// Takes steps in a simulation. If a step is refused, the steps before it stay.
async fn take_steps(
    State(sessions): State<Arc<Sessions>>,
    Path(id): Path<String>,
    steps: Result<Json<Steps>, JsonRejection>,
) -> Result<Json<Vec<Seen>>, Refusal> {
    let Json(Steps { steps }) = steps?;
    let seen = sessions.with(&id, |simulation| simulation.take(&steps))??;
    Ok(Json(seen))
}
