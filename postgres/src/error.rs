//! The reasons why PostgreSQL has not decided.

use std::io::ErrorKind;

use sqlx::postgres::PgConnectOptions;
use thiserror::Error;

/// An error of the server, the connection to it, or the table.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// The text is not the URL of a server.
    #[error(
        "the address is not one of PostgreSQL: use `postgres://user:password@host:5432/database`"
    )]
    Url,
    /// No connection could be made.
    #[error("PostgreSQL at {address} cannot be reached: {remedy}")]
    Unreachable {
        /// The host and the port, or the socket.
        address: String,
        /// The reason, and what to change.
        remedy: &'static str,
        /// The error of the connection.
        #[source]
        source: sqlx::Error,
    },
    /// The connection was lost.
    #[error("the connection to PostgreSQL was lost")]
    Lost(#[source] sqlx::Error),
    /// The server refuses.
    #[error("PostgreSQL refuses, with code {code}: {remedy}")]
    Refused {
        /// The SQLSTATE.
        code: String,
        /// The change that is needed.
        remedy: &'static str,
        /// The server's error.
        #[source]
        source: sqlx::Error,
    },
    /// The server has not answered in time.
    #[error("PostgreSQL has not answered within the deadline")]
    Late,
    /// Too many decisions wait.
    #[error("too many decisions wait for PostgreSQL already")]
    Busy,
    /// The table is not of the right kind.
    #[error(
        "the table {0} is logged where the backend is not `durable()`, or unlogged where it is: change one of them"
    )]
    OtherTable(String),
    /// The stored data were not written by this backend.
    #[error("the table has other columns or rows than tollgate's: use another table")]
    Garbled,
    /// The runtime that decides has ended.
    #[error("the tokio runtime that asks PostgreSQL has ended, or there is none")]
    Ended,
}

impl PostgresError {
    /// Returns whether the connection is gone, and a fresh one may do better.
    pub(crate) fn is_loss(&self) -> bool {
        match self {
            Self::Lost(_) => true,
            Self::Refused { code, .. } => ends_session(code),
            _ => false,
        }
    }

    /// Reads an error of a pool that should have connected with these options.
    pub(crate) fn of_connecting(source: sqlx::Error, options: &PgConnectOptions) -> Self {
        let remedy = match &source {
            sqlx::Error::Database(_) => return Self::of_statement(source),
            sqlx::Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => {
                "it refuses connections: start it, or correct the host and the port"
            }
            _ => "check the address, and that the pool has a connection left",
        };
        let address = match options.get_socket() {
            Some(path) => path.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        Self::Unreachable {
            address,
            remedy,
            source,
        }
    }

    /// Reads an error of a statement.
    pub(crate) fn of_statement(source: sqlx::Error) -> Self {
        let code = source.as_database_error().and_then(|error| error.code());
        match code.map(|code| code.into_owned()) {
            Some(code) => Self::Refused {
                remedy: remedy(&code),
                code,
                source,
            },
            None => Self::Lost(source),
        }
    }

    /// Returns whether the server has rolled the transaction back, and the connection can be used again.
    pub(crate) fn leaves_connection(&self) -> bool {
        match self {
            // A standby refuses as long as the connection exists. A new connection may lead to the primary.
            Self::Refused { code, .. } => !ends_session(code) && code != "25006" && code != "0A000",
            _ => false,
        }
    }

    /// Returns whether a transaction that was to be committed has certainly stored nothing.
    pub(crate) fn is_certain(&self) -> bool {
        match self {
            // The server has ended the session because the commit did not arrive in time.
            Self::Refused { code, .. } => code == "25P03" || !ends_session(code),
            _ => false,
        }
    }
}

/// Returns whether the server ends the session with an error of this code: it is shut down, or something is broken.
fn ends_session(code: &str) -> bool {
    let fatal = ["08", "57P", "58", "XX"];
    code == "25P03" || fatal.iter().any(|class| code.starts_with(class))
}

fn remedy(code: &str) -> &'static str {
    match code {
        "42P01" => "create the table, by `create_table()` or its statement",
        "42501" => "grant the role SELECT, INSERT, UPDATE and DELETE on the table",
        "42703" | "42804" | "42P10" => {
            "the table has other columns than tollgate's: use another one"
        }
        "25006" | "0A000" => "the server is a standby: connect to the primary",
        "53100" => "the disk is full: make room",
        "53300" => {
            "the server has no connection left: make pools smaller, or raise `max_connections`"
        }
        "25P03" => "the process was stopped for longer than the deadline, and has lost its locks",
        "55P03" | "57014" => {
            "rows or the table were locked for longer than the deadline: see `pg_locks`"
        }
        _ if code.starts_with("28") || code == "3D000" => {
            "check the user, the password and the database"
        }
        _ if code.starts_with("57P") => "the server is shut down or starts",
        _ => "see the source",
    }
}
