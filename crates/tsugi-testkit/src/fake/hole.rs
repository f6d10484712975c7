//! Addresses where no connection comes about: refused ones, and ones that swallow everything.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};

/// An address of the loopback that refuses connections.
pub fn refused() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("a bound socket has an address")
}

/// An address of the loopback to which connecting neither succeeds nor fails, as behind a firewall that drops.
#[derive(Debug)]
pub struct BlackHole {
    address: SocketAddr,
    _listener: OwnedFd,
    _fillers: Vec<TcpStream>,
}

impl BlackHole {
    /// Opens one: a listener that accepts nobody and whose queue is full.
    ///
    /// # Panics
    /// When the system does not let the queue fill up.
    #[allow(clippy::new_without_default, reason = "a socket is no default")]
    pub fn new() -> Self {
        let listener = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket can be made");
        bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        listen(&listener, 0).expect("a socket can listen");
        let address: SocketAddr = getsockname(&listener)
            .ok()
            .and_then(|address| address.try_into().ok())
            .expect("a bound socket has an address");
        let mut fillers = Vec::new();
        while let Ok(filler) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
            fillers.push(filler);
            assert!(fillers.len() < 64, "the queue of a listener does not fill up");
        }
        Self { address, _listener: listener, _fillers: fillers }
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
