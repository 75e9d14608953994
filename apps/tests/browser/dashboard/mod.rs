//! The app `dashboard` shows its server's decisions to operators, and to no one else.

mod access;
mod bucket;
mod clients;
mod counts;
mod looks;
mod page;
mod store;
