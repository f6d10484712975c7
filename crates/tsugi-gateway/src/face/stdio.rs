//! Our own standard streams as an MCP wire: newline or `Content-Length`, both eras, answered in kind
//! ([stdio](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio)).

pub mod stream;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tsugi_protocol::answer::{Answer, Caller};
use tsugi_protocol::codec::{self, FramingDecoder};

use super::mcp::unreadable_error;
use super::peer::ClientPeer;
use crate::config::GatewayLimits;
use crate::drain::DrainState;

/// How much may wait to be written before we stop making more.
const WRITE_AHEAD: usize = 1 << 20;
/// How much may wait to be written before we stop reading what leads to more.
const READ_AHEAD: usize = 16 << 20;
/// How long running requests may take after the client has closed its end: `printf ... | tsugi stdio` wants to read the
/// answers of servers that have only just started.
const AFTER_END: Duration = Duration::from_secs(4);
/// How long the last messages may take to be written after a stop was ordered.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Serves one client until it closes its end or the output breaks. The reader never waits for a call, and
/// a client that closes its end is gone when its requests are answered, and within a few seconds otherwise.
pub async fn run<R, W>(answer: Arc<dyn Answer>, input: R, output: W) -> std::io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    run_until(answer, GatewayLimits::default(), input, output, std::future::pending(), Duration::ZERO).await
}

/// Like [`run`] within these limits, and ends after `stop`: new requests are refused then, and running ones have
/// `grace` to end.
pub async fn run_until<R, W>(
    answer: Arc<dyn Answer>,
    limits: GatewayLimits,
    input: R,
    output: W,
    stop: impl Future<Output = ()>,
    grace: Duration,
) -> std::io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let drain = DrainState::default();
    let mut wire = StdioWire {
        peer: ClientPeer::new(answer, &Caller::local(), Arc::new(limits)).until(&drain),
        framing: FramingDecoder::new(codec::InputLimits::LINE),
        output,
        unwritten: BytesMut::new(),
    };
    let stopping = async {
        stop.await;
        drain.run(grace).await
    };
    // While it stops it goes on reading: a running call may wait for the client's answer to a question.
    tokio::select! {
        served = wire.serve_and_finish(input) => return served,
        _ = stopping => {}
    }
    let _ = tokio::time::timeout(LAST_WORDS, wire.finish()).await;
    Ok(())
}

struct StdioWire<W> {
    peer: ClientPeer,
    framing: FramingDecoder,
    output: W,
    unwritten: BytesMut,
}

impl<W: AsyncWrite + Unpin> StdioWire<W> {
    /// A client that closed its end may still read, but not for long.
    async fn serve_and_finish<R: AsyncRead + Unpin>(&mut self, input: R) -> std::io::Result<()> {
        self.serve(input).await?;
        let _ = tokio::time::timeout(AFTER_END, self.finish()).await;
        Ok(())
    }

    async fn serve<R: AsyncRead + Unpin>(&mut self, mut input: R) -> std::io::Result<()> {
        let mut unread = BytesMut::with_capacity(64 << 10);
        loop {
            let has_output = !self.unwritten.is_empty();
            let has_room = self.unwritten.len() < WRITE_AHEAD;
            tokio::select! {
                read = input.read_buf(&mut unread), if self.unwritten.len() < READ_AHEAD => {
                    if read? == 0 {
                        return Ok(());
                    }
                    self.take(&mut unread);
                }
                message = self.peer.next(), if has_room => self.framing.encode(&message, &mut self.unwritten),
                written = self.output.write_buf(&mut self.unwritten), if has_output => self.written(written?).await?,
            }
        }
    }

    fn take(&mut self, unread: &mut BytesMut) {
        while let Some(message) = self.framing.next(unread) {
            let answer = match message {
                Ok(message) => self.peer.receive(message),
                Err(error) => Some(unreadable_error(&error).response(None)),
            };
            if let Some(answer) = answer {
                self.framing.encode(&answer, &mut self.unwritten);
            }
        }
    }

    async fn written(&mut self, count: usize) -> std::io::Result<()> {
        match (count, self.unwritten.has_remaining()) {
            (0, _) => Err(std::io::ErrorKind::WriteZero.into()),
            (_, true) => Ok(()),
            (_, false) => self.output.flush().await,
        }
    }

    /// Writes what is there and what running requests still say.
    async fn finish(&mut self) -> std::io::Result<()> {
        loop {
            self.output.write_all_buf(&mut self.unwritten).await?;
            self.output.flush().await?;
            let Some(message) = self.peer.next_or_idle().await else { return Ok(()) };
            self.framing.encode(&message, &mut self.unwritten);
        }
    }
}
