//! The example `dashboard`: operators see what its server decides, and nobody else does.

mod access;
mod bucket;
mod clients;
mod counts;
mod looks;
mod page;
mod store;
