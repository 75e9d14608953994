//! The routes: a page of a few files, and simulations as JSON.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{
        DefaultBodyLimit, Path, Query, State,
        rejection::{JsonRejection, QueryRejection},
    },
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{Html, IntoResponse, Response},
    routing::{delete, get, post},
};
use serde::{Deserialize, Serialize};

use crate::{
    config::Config,
    patterns::{self, Pattern},
    refusal::Refusal,
    sessions::Sessions,
    simulation::{Seen, Simulation, Step},
};

/// The longest body that is read, in bytes.
const MAX_BODY: usize = 1 << 16;

/// The page runs what comes from here, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";

pub(crate) fn router() -> Router {
    Router::new()
        .route("/", get(Html(include_str!("page.html"))))
        .route(
            "/page.css",
            get(file("text/css; charset=utf-8", include_str!("page.css"))),
        )
        .route("/page.js", get(file(SCRIPT, include_str!("page.js"))))
        .route("/plain.js", get(file(SCRIPT, include_str!("plain.js"))))
        .route(
            "/settings.js",
            get(file(SCRIPT, include_str!("settings.js"))),
        )
        .route(
            "/timeline.js",
            get(file(SCRIPT, include_str!("timeline.js"))),
        )
        .route("/patterns", get(list_patterns))
        .route("/simulations", post(start))
        .route("/simulations/{id}", delete(end))
        .route("/simulations/{id}/steps", post(take_steps))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn(secure))
        .with_state(Arc::new(Sessions::default()))
}

fn file(kind: &'static str, text: &'static str) -> impl IntoResponse + Clone {
    ([(header::CONTENT_TYPE, kind)], text)
}

async fn secure(request: axum::extract::Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers: &mut HeaderMap = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
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

/// Starts a simulation of what the query says.
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

/// Forgets a simulation, if it is known.
async fn end(State(sessions): State<Arc<Sessions>>, Path(id): Path<String>) -> StatusCode {
    sessions.end(&id);
    StatusCode::NO_CONTENT
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Steps {
    steps: Vec<Step>,
}

/// Takes steps in a simulation, all of them or, if one is refused, those before it.
async fn take_steps(
    State(sessions): State<Arc<Sessions>>,
    Path(id): Path<String>,
    steps: Result<Json<Steps>, JsonRejection>,
) -> Result<Json<Vec<Seen>>, Refusal> {
    let Json(Steps { steps }) = steps?;
    let seen = sessions.with(&id, |simulation| simulation.take(&steps))??;
    Ok(Json(seen))
}
