//! The bytes of a WebSocket's message that is not whole yet; without it they would escape the bounds on bodies.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::body::admission::{AdmittedBytes, BodyAdmission};

/// How much of a message is not counted: so little does no harm.
const SMALL: usize = 64 << 10;

/// A wire on which a message takes room while it arrives, and only so much time.
pub(super) struct MessageAdmission<S> {
    wire: S,
    arriving: BodyAdmission,
    limit: Duration,
    /// How much has come since the last whole message.
    unread: usize,
    large: Option<LargeMessage>,
}

/// A message that is large enough to count.
struct LargeMessage {
    room: AdmittedBytes,
    deadline: Pin<Box<Sleep>>,
}

impl<S> MessageAdmission<S> {
    pub(super) fn new(wire: S, arriving: BodyAdmission, limit: Duration) -> Self {
        Self { wire, arriving, limit, unread: 0, large: None }
    }

    /// A whole message was taken.
    pub(super) fn message(&mut self) {
        self.unread = 0;
        self.large = None;
    }

    /// A frame that is not a message was taken, which may stand between the parts of one. A client's frame of its kind
    /// begins with six bytes.
    pub(super) fn control(&mut self, payload: usize) {
        self.unread = self.unread.saturating_sub(payload + 6);
    }

    /// Counts what has come; an error when there is no room for it.
    fn count(&mut self, more: usize) -> io::Result<()> {
        self.unread += more;
        if self.unread <= SMALL {
            return Ok(());
        }
        let large = self.large.get_or_insert_with(|| LargeMessage {
            room: self.arriving.room(),
            deadline: Box::pin(tokio::time::sleep(self.limit)),
        });
        match large.room.take(more) {
            true => Ok(()),
            false => Err(io::Error::other("too many messages are arriving")),
        }
    }

    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.large {
            Some(large) => large.deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into())),
            None => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MessageAdmission<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.wire).poll_read(context, buffer) {
            Poll::Ready(Ok(())) => Poll::Ready(self.count(buffer.filled().len() - before)),
            Poll::Pending => self.poll_deadline(context),
            failed => failed,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MessageAdmission<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_large_message_that_does_not_become_whole_has_only_so_much_time() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let mut wire = MessageAdmission::new(ours, BodyAdmission::new(1 << 20), LIMIT);
        theirs.write_all(&[0; SMALL]).await.unwrap();
        let mut buffer = vec![0; SMALL];
        wire.read_exact(&mut buffer).await.unwrap();
        let quiet = tokio::time::timeout(LIMIT * 2, wire.read_u8()).await;
        assert!(quiet.is_err(), "a little that waits does no harm");
        theirs.write_all(&[0; 2]).await.unwrap();
        wire.read_u16().await.unwrap();
        let late = tokio::time::timeout(LIMIT * 2, wire.read_u8()).await.expect("it ends by itself");
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
        wire.message();
        assert!(tokio::time::timeout(LIMIT * 2, wire.read_u8()).await.is_err(), "a new message has new time");
    }

    #[tokio::test]
    async fn messages_that_arrive_share_their_room_with_bodies_and_give_it_back() {
        let arriving = BodyAdmission::new(10);
        let mut other = arriving.room();
        assert!(other.take(5));
        let mut wire = MessageAdmission::new(tokio::io::empty(), arriving, LIMIT);
        wire.count(SMALL).unwrap();
        wire.control(20);
        wire.count(26).unwrap();
        wire.count(5).unwrap();
        assert!(wire.count(1).is_err());
        wire.message();
        drop(other);
        wire.count(SMALL).unwrap();
        wire.count(10).unwrap();
    }
}
