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
pub type StdioInput = Box<dyn AsyncRead + Send + Unpin>;
/// What our client reads.
pub type StdioOutput = Box<dyn AsyncWrite + Send + Unpin>;

/// Standard input. Ask for it inside a runtime.
pub fn input() -> StdioInput {
    let stdin = std::io::stdin();
    let direct = match kind(stdin.as_fd()) {
        // A pipe is opened again, so that processes that share ours do not find it non-blocking.
        Ok(DescriptorKind::Pipe) => {
            pipe::OpenOptions::new().open_receiver("/proc/self/fd/0").map(|pipe| Box::new(pipe) as StdioInput)
        }
        Ok(DescriptorKind::Socket) => socket(stdin.as_fd()).map(|socket| Box::new(socket) as StdioInput),
        Ok(DescriptorKind::Other) | Err(_) => Ok(Box::new(tokio::io::stdin()) as StdioInput),
    };
    direct.unwrap_or_else(|_| Box::new(tokio::io::stdin()))
}

/// Standard output. Ask for it inside a runtime.
pub fn output() -> StdioOutput {
    let stdout = std::io::stdout();
    let direct = match kind(stdout.as_fd()) {
        Ok(DescriptorKind::Pipe) => {
            pipe::OpenOptions::new().open_sender("/proc/self/fd/1").map(|pipe| Box::new(pipe) as StdioOutput)
        }
        Ok(DescriptorKind::Socket) => socket(stdout.as_fd()).map(|socket| Box::new(socket) as StdioOutput),
        Ok(DescriptorKind::Other) | Err(_) => Ok(Box::new(tokio::io::stdout()) as StdioOutput),
    };
    direct.unwrap_or_else(|_| Box::new(tokio::io::stdout()))
}

#[derive(Clone, Copy)]
enum DescriptorKind {
    Pipe,
    Socket,
    Other,
}

fn kind(stream: BorrowedFd<'_>) -> Result<DescriptorKind> {
    let kind = File::from(stream.try_clone_to_owned()?).metadata()?.file_type();
    Ok(match (kind.is_fifo(), kind.is_socket()) {
        (true, _) => DescriptorKind::Pipe,
        (_, true) => DescriptorKind::Socket,
        _ => DescriptorKind::Other,
    })
}

/// A socket cannot be opened again. Ours was made by the program that started us, as Node.js does.
fn socket(stream: BorrowedFd<'_>) -> Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(stream.try_clone_to_owned()?);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}
