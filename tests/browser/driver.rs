//! The program that drives browsers.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    time::Duration,
};

use crate::redis_support::{Process, comes_true, new_home};

/// How long the browser may take for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// How often a condition is looked at.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// What chromedriver prints before its port.
const LISTENS: &str = "started successfully on port ";

/// The words in its output when it cannot listen on its port.
const ENDS: &str = "Exiting...";

/// The program that drives browsers. It is killed when dropped, and at the latest with the process of the test.
pub(crate) struct Driver {
    process: Process,
    address: SocketAddr,
}

impl Driver {
    /// Starts one on a port, or on any if this is 0. The error is what it has printed if it does not listen.
    ///
    /// It finds a free port of IPv6, and ends if somebody uses the same one of IPv4.
    pub(crate) fn start(port: u16) -> Result<Self, String> {
        let args = [format!("--port={port}"), "--enable-chrome-logs".to_owned()];
        let process = Process::new(new_home(), "chromedriver", &args);
        process.start();
        let mut listens = None;
        comes_true(|| {
            let output = process.log();
            listens = port_in(&output);
            listens.is_some() || output.contains(ENDS)
        });
        let Some(port) = listens else {
            return Err(process.log());
        };
        let address = (Ipv4Addr::LOCALHOST, port).into();
        Ok(Self { process, address })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it and its browsers have printed so far.
    pub(crate) fn output(&self) -> String {
        self.process.log()
    }
}

/// The port on which it says that it listens.
fn port_in(output: &str) -> Option<u16> {
    let (_, rest) = output.split_once(LISTENS)?;
    let (port, _) = rest.split_once('.')?;
    port.parse().ok()
}

#[test]
fn driver_that_finds_its_port_taken_says_so() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let Err(printed) = Driver::start(port) else {
        panic!("two programs listen on port {port}");
    };
    assert!(printed.contains("port not available"), "{printed}");
}
