//! A client's connection, plain or under TLS.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

pub(super) enum ClientStream {
    Plain(TcpStream),
    /// Boxed: it is twenty times as large as a socket.
    Tls(Box<TlsStream<TcpStream>>),
}

impl ClientStream {
    pub(super) fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            ClientStream::Plain(stream) => stream.peer_addr(),
            ClientStream::Tls(stream) => stream.get_ref().0.peer_addr(),
        }
    }
}

/// Hands a call to the stream that is there.
macro_rules! forward {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream.get_mut() {
            ClientStream::Plain($inner) => {
                let $inner = Pin::new($inner);
                $call
            }
            ClientStream::Tls($inner) => {
                let $inner = Pin::new(&mut **$inner);
                $call
            }
        }
    };
}

impl AsyncRead for ClientStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        forward!(self, stream => stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        forward!(self, stream => stream.poll_write(context, bytes))
    }

    /// Both kinds take several slices at once; under TLS they become one record.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        forward!(self, stream => stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, stream => stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, stream => stream.poll_shutdown(context))
    }
}
