use std::{fmt, time::Instant};

use crate::backend::{ServerId, Servers};

/// The name of a server in logs.
#[derive(Clone, Copy)]
pub(super) struct ServerName<'a> {
    servers: &'a dyn Servers,
    server: ServerId,
}

impl<'a> ServerName<'a> {
    pub(super) fn new(servers: Option<&'a dyn Servers>, server: ServerId) -> Option<Self> {
        servers.map(|servers| Self { servers, server })
    }

    pub(super) fn text(&self) -> Option<String> {
        self.servers.address(self.server)
    }

    pub(super) fn has_decided(&self, since: Instant) -> bool {
        self.servers.has_decided(self.server, since)
    }
}

impl fmt::Debug for ServerName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.server.fmt(f)
    }
}
