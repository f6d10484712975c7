//! Our own standard streams without threads behind them, where the system allows it.
//!
//! Tokio's own read and write on a thread each, because a file or a terminal can do nothing else. Clients start us with
//! pipes or sockets, which can: the two hand-overs per direction cost more than most of our calls.

use std::fs::File;
use std::io::Result;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt as _;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// What our client writes.
pub type Input = Box<dyn AsyncRead + Send + Unpin>;
/// What our client reads.
pub type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Standard input. Ask for it inside a runtime.
pub fn input() -> Input {
    let stdin = std::io::stdin();
    let direct = match kind(stdin.as_fd()) {
        // A pipe is opened anew, so that whoever shares ours does not find it non-blocking.
        Ok(Kind::Pipe) => pipe::OpenOptions::new().open_receiver("/proc/self/fd/0").map(|pipe| Box::new(pipe) as Input),
        Ok(Kind::Socket) => socket(stdin.as_fd()).map(|socket| Box::new(socket) as Input),
        Ok(Kind::Other) | Err(_) => Ok(Box::new(tokio::io::stdin()) as Input),
    };
    direct.unwrap_or_else(|_| Box::new(tokio::io::stdin()))
}

/// Standard output. Ask for it inside a runtime.
pub fn output() -> Output {
    let stdout = std::io::stdout();
    let direct = match kind(stdout.as_fd()) {
        Ok(Kind::Pipe) => pipe::OpenOptions::new().open_sender("/proc/self/fd/1").map(|pipe| Box::new(pipe) as Output),
        Ok(Kind::Socket) => socket(stdout.as_fd()).map(|socket| Box::new(socket) as Output),
        Ok(Kind::Other) | Err(_) => Ok(Box::new(tokio::io::stdout()) as Output),
    };
    direct.unwrap_or_else(|_| Box::new(tokio::io::stdout()))
}

#[derive(Clone, Copy)]
enum Kind {
    Pipe,
    Socket,
    Other,
}

fn kind(stream: BorrowedFd<'_>) -> Result<Kind> {
    let kind = File::from(stream.try_clone_to_owned()?).metadata()?.file_type();
    Ok(match (kind.is_fifo(), kind.is_socket()) {
        (true, _) => Kind::Pipe,
        (_, true) => Kind::Socket,
        _ => Kind::Other,
    })
}

/// A socket cannot be opened anew; ours was made for us by whoever started us, as Node.js does.
fn socket(stream: BorrowedFd<'_>) -> Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(stream.try_clone_to_owned()?);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}
