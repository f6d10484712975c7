//! Messages over a WebSocket: one message per text frame, subprotocol `mcp`.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{HeaderValue, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use crate::error::{ErrorKind, TransportError, chain};
use crate::http::HttpTarget;
use crate::http::headers::retry_after;
use crate::link::{Inbox, Link, Outbox};

/// A message larger than this ends the connection.
const MAX_MESSAGE: usize = 16 << 20;
/// Name lookup, TCP, TLS and the upgrade together may take this long.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How many messages may wait in either direction.
const QUEUE: usize = 256;

/// Connects to `ws://` or `wss://`.
pub async fn connect(target: &HttpTarget) -> Result<Link, TransportError> {
    match tokio::time::timeout(CONNECT_LIMIT, open(target)).await {
        Ok(connected) => connected,
        Err(_) => Err(TransportError::unsent(ErrorKind::Connect, "no WebSocket connection within 5 s")),
    }
}

async fn open(target: &HttpTarget) -> Result<Link, TransportError> {
    let refused = |why: String| TransportError::unsent(ErrorKind::Connect, why);
    let host = target.url.host_str().ok_or_else(|| refused("the address has no host".into()))?;
    let port = target.url.port_or_known_default().ok_or_else(|| refused("the address has no port".into()))?;
    let request = upgrade_request(target)?;
    let tcp = TcpStream::connect((host.trim_matches(['[', ']']), port))
        .await
        .map_err(|error| refused(format!("cannot connect to {host}: {error}")))?;
    tcp.set_nodelay(true).map_err(|error| refused(format!("cannot set up the connection: {error}")))?;
    if target.url.scheme() == "wss" {
        let tls = tokio_rustls::TlsConnector::from(crate::http::tls_config());
        let name = rustls::pki_types::ServerName::try_from(host.to_owned())
            .map_err(|error| refused(format!("the host name cannot be used for TLS: {error}")))?;
        let stream =
            tls.connect(name, tcp).await.map_err(|error| refused(format!("TLS with {host} failed: {error}")))?;
        return upgrade(request, stream).await;
    }
    upgrade(request, tcp).await
}

fn upgrade_request(target: &HttpTarget) -> Result<Request<()>, TransportError> {
    let mut request = target.url.as_str().into_client_request().map_err(|error| {
        TransportError::unsent(ErrorKind::Connect, format!("the address cannot be used: {}", chain(&error)))
    })?;
    request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("mcp"));
    for (name, value) in &target.headers {
        request.headers_mut().insert(name.clone(), value.clone());
    }
    Ok(request)
}

async fn upgrade<S>(request: Request<()>, stream: S) -> Result<Link, TransportError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
    let (socket, _) = tokio_tungstenite::client_async_with_config(request, stream, Some(config))
        .await
        .map_err(|error| upgrade_error(&error))?;
    let (outbox, outgoing) = mpsc::channel(QUEUE);
    let (incoming, inbox) = mpsc::channel(QUEUE);
    tokio::spawn(carry(socket, outgoing, incoming));
    Ok(Link { outbox: Outbox::Queue(outbox), inbox: Inbox::Queue(inbox), job: None })
}

fn upgrade_error(error: &WsError) -> TransportError {
    if let WsError::Http(response) = error {
        let retry_after = retry_after(response.headers(), SystemTime::now());
        let kind = ErrorKind::Status { status: response.status().as_u16(), retry_after };
        return TransportError::unsent(kind, format!("the server answered {} to the upgrade", response.status()));
    }
    TransportError::unsent(ErrorKind::Connect, format!("the WebSocket handshake failed: {}", chain(error)))
}

/// Owns the socket: sends what is queued, hands over what arrives, ends with either side.
async fn carry<S>(
    socket: WebSocketStream<S>,
    mut outgoing: mpsc::Receiver<Bytes>,
    incoming: mpsc::Sender<Result<Bytes, TransportError>>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut sink, mut stream) = socket.split();
    let sending = async {
        while let Some(message) = outgoing.recv().await {
            let text = String::from_utf8_lossy(&message).into_owned();
            if sink.send(Message::text(text)).await.is_err() {
                return;
            }
        }
        let _ = sink.close().await;
    };
    let receiving = async {
        while let Some(frame) = stream.next().await {
            let message = match frame {
                Ok(Message::Text(text)) => Ok(Bytes::from(text)),
                Ok(Message::Binary(bytes)) => Ok(bytes),
                Ok(_) => continue,
                Err(error) => Err(frame_error(&error)),
            };
            let is_end = message.is_err();
            if incoming.send(message).await.is_err() || is_end {
                return;
            }
        }
    };
    tokio::select! {
        () = sending => {}
        () = receiving => {}
    }
}

fn frame_error(error: &WsError) -> TransportError {
    let kind = if matches!(error, WsError::Capacity(_)) { ErrorKind::TooLarge } else { ErrorKind::Lost };
    TransportError::sent(kind, format!("the WebSocket broke: {}", chain(error)))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_refused_upgrade_says_how_long_the_server_asks_to_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/", listener.local_addr().unwrap()).parse().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await.unwrap();
            let answer = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 9\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        let error = connect(&HttpTarget { url, headers: Default::default() }).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Status { status: 503, retry_after: Some(Duration::from_secs(9)) });
    }
}
