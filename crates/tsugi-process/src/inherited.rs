//! The listening socket that our parent process holds for us, so that it outlives each of our runs
//! ([sd_listen_fds](https://www.freedesktop.org/software/systemd/man/latest/sd_listen_fds.html)).
#![allow(unsafe_code, reason = "a file that was inherited by number has no safe form")]

use std::net::TcpListener;
use std::os::fd::{BorrowedFd, FromRawFd, RawFd};

/// The first inherited file, as the convention has it.
const FIRST: RawFd = 3;

/// The listening TCP socket that we were started with, when `LISTEN_FDS` and `LISTEN_PID` announce one.
/// It can be taken once: the next call finds that it is ours already, and returns nothing.
pub fn inherited_listener() -> Option<TcpListener> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    if number("LISTEN_PID")? != std::process::id() || number("LISTEN_FDS")? == 0 {
        return None;
    }
    // SAFETY: the file is only inspected; one that is not open gives an error.
    let borrowed = unsafe { BorrowedFd::borrow_raw(FIRST) };
    let flags = rustix::io::fcntl_getfd(borrowed).ok()?;
    if flags.contains(rustix::io::FdFlags::CLOEXEC) || !is_listening(borrowed) {
        // It was not inherited as a listening socket: our own files are closed on exec.
        return None;
    }
    // Programs that we start must not hold it open, and the flag says that it is taken.
    rustix::io::fcntl_setfd(borrowed, flags | rustix::io::FdFlags::CLOEXEC).ok()?;
    // SAFETY: it was open and not marked as ours, and from now on it belongs to the listener alone.
    let listener = unsafe { TcpListener::from_raw_fd(FIRST) };
    listener.set_nonblocking(true).ok()?;
    listener.local_addr().ok()?;
    Some(listener)
}

#[cfg(not(target_vendor = "apple"))]
fn is_listening(file: BorrowedFd<'_>) -> bool {
    rustix::net::sockopt::socket_acceptconn(file).unwrap_or(false)
}

/// Apple's systems cannot be asked whether a socket listens. A stream socket that has no peer is the next best sign:
/// one that is neither connected nor listening fails at the first `accept`.
#[cfg(target_vendor = "apple")]
fn is_listening(file: BorrowedFd<'_>) -> bool {
    use rustix::net::{SocketType, getpeername, sockopt::socket_type};
    socket_type(file) == Ok(SocketType::STREAM) && getpeername(file).is_err()
}
