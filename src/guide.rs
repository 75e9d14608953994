//! The pages of `docs`. These modules contain documentation only, and exist only in the documentation.
//!
// For readers of a clone, each page ends with the definitions of its links as paths of files. The first definition of a label
// counts, so the definitions as paths of Rust are included before each page.
#![doc = include_str!("guide/links.md")]
#![doc = include_str!("../docs/README.md")]

/// Makes a module of each page, if its code can be compiled.
macro_rules! pages {
    ($($(#[$cfg:meta])? $module:ident = $file:literal,)+) => {$(
        #[doc = include_str!("guide/links.md")]
        #[doc = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/", $file))]
        $(#[$cfg])?
        pub mod $module {}
    )+};
}

pages! {
    algorithms = "algorithms.md",
    command = "command.md",
    #[cfg(feature = "redis")] failures = "failures.md",
    #[cfg(feature = "redis")] leases = "leases.md",
    limits_in_files = "limits-in-files.md",
    #[cfg(feature = "redis")] managed_redis = "managed-redis.md",
    operating = "operating.md",
    #[cfg(not(doctest))] postgres = "postgres.md",
    proxies = "proxies.md",
    #[cfg(feature = "redis")] redis = "redis.md",
    responses = "responses.md",
    #[cfg(feature = "axum")] rules = "rules.md",
    #[cfg(feature = "axum")] stack = "stack.md",
    tiers = "tiers.md",
    waiting = "waiting.md",
    why_denied = "why-denied.md",
    without_axum = "without-axum.md",
}

pub mod recipes {
    #![doc = include_str!("guide/links.md")]
    #![doc = include_str!("../docs/recipes/README.md")]

    pages! {
        #[cfg(feature = "axum")] api_keys = "recipes/api-keys.md",
        behind_proxies = "recipes/behind-proxies.md",
        #[cfg(feature = "pace")] calling_apis = "recipes/calling-apis.md",
        #[cfg(feature = "axum")] combined_limits = "recipes/combined-limits.md",
        #[cfg(feature = "axum")] concurrency = "recipes/concurrency.md",
        #[cfg(feature = "axum")] database = "recipes/database.md",
        #[cfg(feature = "axum")] graphql = "recipes/graphql.md",
        grpc = "recipes/grpc.md",
        #[cfg(feature = "axum")] language_models = "recipes/language-models.md",
        #[cfg(feature = "axum")] logins = "recipes/logins.md",
        migrating = "recipes/migrating.md",
        #[cfg(feature = "axum")] plans = "recipes/plans.md",
        #[cfg(feature = "axum")] routes = "recipes/routes.md",
        #[cfg(feature = "axum")] shadow_mode = "recipes/shadow-mode.md",
        #[cfg(feature = "axum")] testing = "recipes/testing.md",
        #[cfg(feature = "axum")] usage = "recipes/usage.md",
        webhooks = "recipes/webhooks.md",
        #[cfg(feature = "axum")] websockets = "recipes/websockets.md",
    }
}
