//! TLS handshakes: bounded in time and number, so that clients that never finish one hurt no other.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tsugi_tls::acme_challenge::CHALLENGE_PROTOCOL;
use tsugi_tls::client_auth::UntrustedCertificate;
use tsugi_tls::server::{ConnectionTls, ServerTls};

use crate::guard::certificate::PeerCertificate;

/// How long a handshake may take.
const LIMIT: Duration = Duration::from_secs(5);
/// The first byte of every TLS connection: a record of the handshake
/// ([RFC 8446](https://www.rfc-editor.org/rfc/rfc8446#section-5.1)).
const HANDSHAKE_RECORD: u8 = 22;
/// For a client that speaks plain HTTP to the TLS port.
const SPEAK_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\
    content-length: 40\r\n\r\nthis address speaks HTTPS: use https://\n";

/// Why a connection was not secured.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error("it took longer than 5 s")]
    Late,
    #[error("too many handshakes were under way, and it was the oldest")]
    Displaced,
    #[error("the client spoke plain HTTP")]
    Plain,
    #[error("an ACME authority looked at the proof of a name")]
    Proof,
    #[error(transparent)]
    Failed(#[from] io::Error),
    #[error(transparent)]
    Untrusted(#[from] UntrustedCertificate),
}

impl HandshakeError {
    /// Its name in the metrics.
    pub(super) fn label(&self) -> &'static str {
        match self {
            HandshakeError::Late => "late",
            HandshakeError::Displaced => "displaced",
            HandshakeError::Plain => "plain",
            HandshakeError::Proof => "proof",
            HandshakeError::Failed(_) => "failed",
            HandshakeError::Untrusted(_) => "untrusted",
        }
    }

    /// True when the caller has shown a certificate and it was refused.
    pub(super) fn is_credential(&self) -> bool {
        use rustls::Error::{InvalidCertRevocationList, InvalidCertificate};
        match self {
            HandshakeError::Untrusted(_) => true,
            HandshakeError::Failed(error) => {
                let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
                matches!(cause, Some(InvalidCertificate(_) | InvalidCertRevocationList(_)))
            }
            _ => false,
        }
    }
}

/// The handshakes under way. When there are too many, the oldest one ends: an honest client finishes within a few round
/// trips, and one that stalls becomes the oldest.
pub(super) struct HandshakeRoom {
    most: usize,
    under_way: Mutex<VecDeque<Weak<Notify>>>,
}

impl HandshakeRoom {
    /// A quarter of the connections, so that the others stay free for clients that have finished theirs.
    pub(super) fn new(connections: usize) -> Self {
        Self { most: (connections / 4).max(1), under_way: Mutex::default() }
    }

    /// Takes a place, which is free again when the result is dropped. It is notified when it is displaced.
    fn enter(&self) -> Arc<Notify> {
        let place = Arc::new(Notify::new());
        let mut under_way = self.under_way.lock();
        if under_way.len() >= self.most {
            under_way.retain(|place| place.strong_count() > 0);
        }
        if under_way.len() >= self.most
            && let Some(oldest) = under_way.pop_front().and_then(|oldest| oldest.upgrade())
        {
            oldest.notify_one();
        }
        under_way.push_back(Arc::downgrade(&place));
        place
    }

    /// Secures a connection, and says who shows a certificate there.
    pub(super) async fn secure(
        &self,
        tls: &ServerTls,
        stream: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, Option<PeerCertificate>), HandshakeError> {
        let place = self.enter();
        let connection = tls.begin();
        let stream = tokio::select! {
            secured = shake_hands(&connection, stream) => secured?,
            () = tokio::time::sleep(LIMIT) => return Err(HandshakeError::Late),
            () = place.notified() => return Err(HandshakeError::Displaced),
        };
        // The authority has seen what it came for; nothing is spoken over such a connection (RFC 8737 §3).
        if stream.get_ref().1.alpn_protocol() == Some(CHALLENGE_PROTOCOL) {
            return Err(HandshakeError::Proof);
        }
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let peer = PeerCertificate::identify(connection, chain, SystemTime::now())?;
        Ok((stream, peer))
    }
}

async fn shake_hands(
    connection: &ConnectionTls,
    mut stream: TcpStream,
) -> Result<TlsStream<TcpStream>, HandshakeError> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE_RECORD {
        stream.write_all(SPEAK_TLS).await?;
        // The request is read, since closing with unread bytes resets the connection before the answer arrives.
        let _ = stream.try_read(&mut [0; 4096]);
        stream.shutdown().await?;
        return Err(HandshakeError::Plain);
    }
    Ok(TlsAcceptor::from(connection.config.clone()).accept(stream).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_handshake_gives_way_when_there_are_too_many() {
        let room = HandshakeRoom::new(8);
        let first = room.enter();
        let second = room.enter();
        first.notified().now_or_never_is(false);
        let third = room.enter();
        first.notified().now_or_never_is(true);
        drop(third);
        let _fourth = room.enter();
        second.notified().now_or_never_is(false);
    }

    trait NowOrNever {
        fn now_or_never_is(self, expected: bool);
    }

    impl<F: Future<Output = ()>> NowOrNever for F {
        #[track_caller]
        fn now_or_never_is(self, expected: bool) {
            assert_eq!(futures_util::FutureExt::now_or_never(self).is_some(), expected);
        }
    }
}
