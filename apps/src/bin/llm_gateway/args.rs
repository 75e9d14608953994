//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// A gateway in front of a server that speaks the OpenAI-compatible protocol, with limits for each API key.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1:3000")]
    pub(crate) listen: String,
    /// The server behind the gateway; a parrot answers without it.
    #[arg(long)]
    pub(crate) upstream: Option<String>,
    /// The Redis that keeps the buckets; they are in memory without it.
    #[arg(long)]
    pub(crate) redis: Option<String>,
    /// The number of gateways that share the Redis.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) gateways: u32,
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin/llm_gateway/limits.yml"))]
    pub(crate) limits: PathBuf,
    /// The limits of individual keys, by their ids.
    #[arg(long)]
    pub(crate) overrides: Option<PathBuf>,
    /// The keys, the plans and the models.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin/llm_gateway/gateway.yml"))]
    pub(crate) keys: PathBuf,
}
