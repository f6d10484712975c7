//! The single things that a fake does with a connection.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// One thing.
#[derive(Debug, Clone)]
pub enum Step {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes one by one, with a pause of milliseconds after each.
    Slowly(Vec<u8>, u64),
    /// Sends these bytes so often.
    Repeat(Vec<u8>, usize),
    /// Sends these bytes again and again, with a pause of milliseconds after each time, until nobody listens.
    Forever(Vec<u8>, u64),
    /// Waits so many milliseconds.
    Wait(u64),
    /// Does nothing until the other side closes.
    Hold,
    /// Resets the connection.
    Reset,
    /// Closes the connection.
    Close,
}

/// What is done for one request or connection, in this order. A connection that was not ended is used again.
pub type Steps = Vec<Step>;

/// The other side of a connection.
pub(super) trait Peer: Read + Write {
    fn socket(&self) -> &TcpStream;
}

impl Peer for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Peer for rustls::StreamOwned<rustls::ServerConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        self.get_ref()
    }
}

/// Whether a connection can be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goes {
    /// It can.
    On,
    /// It is over.
    Over,
}

pub(super) fn perform<P: Peer>(peer: &mut BufReader<P>, steps: &[Step]) -> Goes {
    for step in steps {
        if take(peer, step) == Goes::Over {
            return Goes::Over;
        }
    }
    Goes::On
}

fn take<P: Peer>(peer: &mut BufReader<P>, step: &Step) -> Goes {
    let wire = peer.get_mut();
    let sent = match step {
        Step::Send(bytes) => send(wire, bytes),
        Step::Slowly(bytes, pause) => bytes.chunks(1).try_for_each(|byte| send_and_wait(wire, byte, *pause)),
        Step::Repeat(bytes, times) => (0..*times).try_for_each(|_| send(wire, bytes)),
        Step::Forever(bytes, pause) => (0..).try_for_each(|_: u64| send_and_wait(wire, bytes, *pause)),
        Step::Wait(milliseconds) => {
            std::thread::sleep(Duration::from_millis(*milliseconds));
            Ok(())
        }
        Step::Hold => return hold(peer),
        Step::Reset => return reset(wire),
        Step::Close => {
            wire.socket().shutdown(Shutdown::Both).ok();
            return Goes::Over;
        }
    };
    if sent.is_ok() { Goes::On } else { Goes::Over }
}

fn send(wire: &mut impl Peer, bytes: &[u8]) -> std::io::Result<()> {
    wire.write_all(bytes)?;
    wire.flush()
}

fn send_and_wait(wire: &mut impl Peer, bytes: &[u8], milliseconds: u64) -> std::io::Result<()> {
    send(wire, bytes)?;
    std::thread::sleep(Duration::from_millis(milliseconds));
    Ok(())
}

fn hold(peer: &mut impl Read) -> Goes {
    std::io::copy(peer, &mut std::io::sink()).ok();
    Goes::Over
}

fn reset(wire: &mut impl Peer) -> Goes {
    // Closing a socket that may not linger sends a reset.
    rustix::net::sockopt::set_socket_linger(wire.socket(), Some(Duration::ZERO)).ok();
    Goes::Over
}
