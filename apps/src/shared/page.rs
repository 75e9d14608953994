//! Serves the files of a page that loads nothing from other servers.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

/// The page may run the scripts of this server, but no inline scripts and no others.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves the style sheet that the pages of the examples share.
pub(crate) fn look() -> impl IntoResponse + Clone {
    style(include_str!("look.css"))
}

/// Serves a style sheet.
pub(crate) fn style(text: &'static str) -> impl IntoResponse + Clone {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], text)
}

/// Serves a script, which can be a module.
pub(crate) fn script(text: &'static str) -> impl IntoResponse + Clone {
    let kind = "text/javascript; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text)
}

/// Adds the headers that confine the page, to each response.
pub(crate) async fn confine(request: Request, next: Next) -> Response {
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
