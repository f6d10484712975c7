//! Messages over a WebSocket: one message per text frame, subprotocol `mcp`.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::{Response, generate_request};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::handshake::machine::TryParse;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tsugi_protocol::answer::FaultReason;

use crate::error::{TransportError, TransportErrorKind, chain};
use crate::http::headers::retry_after;
use crate::http::{HttpTarget, UpstreamConnector};
use crate::link::{Inbox, Link, Outbox};

/// A message larger than this ends the connection.
const MAX_MESSAGE: usize = 16 << 20;
/// The head of the answer to the upgrade is smaller than this.
const MAX_HEAD: usize = 64 << 10;
/// What we offer to speak.
const SUBPROTOCOL: &str = "mcp";
/// Name lookup, TCP, TLS and the upgrade together may take this long.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// After this long without a message a ping is sent: proxies close silent connections, and the answer shows that the server is there.
const SILENCE: Duration = Duration::from_secs(30);
/// How many messages may wait in either direction.
const QUEUE: usize = 256;

/// Connects to `ws://` or `wss://`.
pub async fn connect(target: &HttpTarget) -> Result<Link, TransportError> {
    match tokio::time::timeout(CONNECT_LIMIT, open(target)).await {
        Ok(connected) => connected,
        Err(_) => {
            let late = TransportError::unsent(TransportErrorKind::Connect, "no WebSocket connection within 5 s");
            Err(late.with_reason(Some(FaultReason::ConnectTimeout)))
        }
    }
}

async fn open(target: &HttpTarget) -> Result<Link, TransportError> {
    let request = upgrade_request(target)?;
    let stream = UpstreamConnector::for_upgrades(target.guard.as_ref(), &target.tls)
        .connect(beneath(target)?)
        .await
        .map_err(|error| TransportError::connect(target.url.host_str().unwrap_or("the server"), &*error))?;
    upgrade(request, TokioIo::new(stream)).await
}

/// The address as the HTTP that a WebSocket begins with.
fn beneath(target: &HttpTarget) -> Result<Uri, TransportError> {
    let address = target.url.as_str();
    let http = address.strip_prefix("ws").map(|rest| format!("http{rest}"));
    let refused = || invalid_address(format!("{address} is not a WebSocket address"));
    http.and_then(|http| http.parse().ok()).ok_or_else(refused)
}

fn invalid_address(why: String) -> TransportError {
    TransportError::unsent(TransportErrorKind::Connect, why).with_reason(Some(FaultReason::InvalidAddress))
}

fn upgrade_request(target: &HttpTarget) -> Result<Request<()>, TransportError> {
    let unusable = |error: WsError| invalid_address(format!("the address cannot be used: {}", chain(&error)));
    let mut request = target.url.as_str().into_client_request().map_err(unusable)?;
    request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static(SUBPROTOCOL));
    // `append`: a name may have several values.
    for (name, value) in &target.headers {
        request.headers_mut().append(name.clone(), value.clone());
    }
    Ok(request)
}

async fn upgrade<S>(request: Request<()>, mut stream: S) -> Result<Link, TransportError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (head, key) = generate_request(request).map_err(|error| not_upgraded(chain(&error)))?;
    stream.write_all(&head).await.map_err(|error| not_upgraded(chain(&error)))?;
    let (response, rest) = read_head(&mut stream).await?;
    check(&response, &key)?;
    // Bounded: a peer announces the size of a frame before it sends it.
    let config = WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
    // Frames may have arrived together with the head.
    let socket = WebSocketStream::from_partially_read(stream, rest, Role::Client, Some(config)).await;
    let (outbox, outgoing) = mpsc::channel(QUEUE);
    let (incoming, inbox) = mpsc::channel(QUEUE);
    tokio::spawn(carry(socket, outgoing, incoming));
    Ok(Link { outbox: Outbox::Queue(outbox), inbox: Inbox::Queue(inbox), job: None })
}

/// The head of the server's answer, and what came after it.
async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> Result<(Response, Vec<u8>), TransportError> {
    let mut read = Vec::new();
    while read.len() < MAX_HEAD {
        if stream.read_buf(&mut read).await.map_err(|error| not_upgraded(chain(&error)))? == 0 {
            return Err(not_upgraded("the server closed the connection"));
        }
        if let Some((size, response)) = Response::try_parse(&read).map_err(|error| not_upgraded(chain(&error)))? {
            return Ok((response, read.split_off(size)));
        }
    }
    Err(not_upgraded("the server's answer has no end"))
}

/// Whether the server agreed ([RFC 6455](https://www.rfc-editor.org/rfc/rfc6455#section-4.1)). It may choose no
/// subprotocol, which the library's own handshake does not allow, but none that was not offered.
fn check(response: &Response, key: &str) -> Result<(), TransportError> {
    let headers = response.headers();
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let retry_after = retry_after(headers, SystemTime::now());
        let kind = TransportErrorKind::Status { status: response.status().as_u16(), retry_after };
        return Err(TransportError::unsent(kind, format!("the server answered {} to the upgrade", response.status())));
    }
    if !has_word(headers, "upgrade", "websocket") || !has_word(headers, "connection", "upgrade") {
        return Err(not_upgraded("the server's answer is not an upgrade to a WebSocket"));
    }
    if headers.get("sec-websocket-accept").is_none_or(|accept| accept != &derive_accept_key(key.as_bytes())) {
        return Err(not_upgraded("the server's answer belongs to another request"));
    }
    match headers.get("sec-websocket-protocol") {
        Some(chosen) if chosen != SUBPROTOCOL => Err(not_upgraded(format!("the server chose the protocol {chosen:?}"))),
        _ => Ok(()),
    }
}

fn has_word(headers: &HeaderMap, name: &str, word: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
}

fn not_upgraded(why: impl std::fmt::Display) -> TransportError {
    TransportError::unsent(TransportErrorKind::Connect, format!("the WebSocket handshake failed: {why}"))
        .with_reason(Some(FaultReason::UpgradeRefused))
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
        loop {
            let message = match tokio::time::timeout(SILENCE, outgoing.recv()).await {
                Ok(Some(message)) => Message::text(String::from_utf8_lossy(&message).into_owned()),
                Ok(None) => break,
                // Silence for as long as proxies tolerate.
                Err(_) => Message::Ping(Bytes::new()),
            };
            if sink.send(message).await.is_err() {
                return;
            }
        }
        let _ = sink.close().await;
    };
    let receiving = async {
        while let Some(frame) = stream.next().await {
            let message = match frame {
                Ok(Message::Text(text)) => Ok(Bytes::from(text)),
                // Some servers send JSON in binary frames.
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
    let kind =
        if matches!(error, WsError::Capacity(_)) { TransportErrorKind::TooLarge } else { TransportErrorKind::Lost };
    TransportError::sent(kind, format!("the WebSocket broke: {}", chain(error)))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::link::LinkEvent;

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
        let error = connect(&HttpTarget::new(url, Default::default())).await.unwrap_err();
        assert_eq!(error.kind, TransportErrorKind::Status { status: 503, retry_after: Some(Duration::from_secs(9)) });
    }

    #[tokio::test]
    async fn an_address_in_brackets_and_headers_of_one_name_reach_the_server() {
        let listener = TcpListener::bind("[::1]:0").await.unwrap();
        let url = format!("ws://{}/path?x=1", listener.local_addr().unwrap()).parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.append("x-team", HeaderValue::from_static("red"));
        headers.append("x-team", HeaderValue::from_static("blue"));
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).await.unwrap();
            String::from_utf8_lossy(&head[..read]).into_owned()
        });
        connect(&HttpTarget::new(url, headers)).await.unwrap_err();
        let head = serving.await.unwrap();
        assert!(head.starts_with("GET /path?x=1 HTTP/1.1"), "{head}");
        assert!(head.contains("x-team: red") && head.contains("x-team: blue"), "{head}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_is_pinged() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (link, accepted) = tokio::join!(upgrade(request(), ours), tokio_tungstenite::accept_async(theirs));
        let _link = link.unwrap();
        let frame = accepted.unwrap().next().await.unwrap().unwrap();
        assert!(matches!(frame, Message::Ping(_)), "{frame:?}");
    }

    fn request() -> Request<()> {
        let url = "ws://server/".parse().unwrap();
        upgrade_request(&HttpTarget::new(url, Default::default())).unwrap()
    }

    /// What comes of an upgrade that the server answers with `lines` and the key that `accept` makes of ours, and
    /// `rest` right after it.
    async fn upgraded(lines: &str, rest: &[u8], accept: fn(&str) -> String) -> Result<Link, TransportError> {
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        let request = request();
        let key = accept(request.headers()["sec-websocket-key"].to_str().unwrap());
        let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n";
        let answer = format!("{head}Sec-WebSocket-Accept: {key}\r\n{lines}\r\n");
        theirs.write_all(&[answer.as_bytes(), rest].concat()).await.unwrap();
        upgrade(request, ours).await
    }

    fn right(key: &str) -> String {
        derive_accept_key(key.as_bytes())
    }

    #[tokio::test]
    async fn a_server_may_choose_no_subprotocol_but_none_of_its_own() {
        assert!(upgraded("", b"", right).await.is_ok());
        assert!(upgraded("Sec-WebSocket-Protocol: mcp\r\n", b"", right).await.is_ok());
        let chosen = upgraded("Sec-WebSocket-Protocol: graphql-ws\r\n", b"", right).await.unwrap_err();
        assert!(chosen.to_string().contains("graphql-ws"), "{chosen}");
        let other = upgraded("", b"", |_| derive_accept_key(b"another key")).await.unwrap_err();
        assert!(other.to_string().contains("another request"), "{other}");
    }

    #[tokio::test]
    async fn a_frame_that_comes_with_the_answer_is_not_lost() {
        let mut link = upgraded("", b"\x81\x02{}", right).await.unwrap();
        let mut batch = Vec::new();
        // The stream ends right after the frame, which may be told with it.
        let _ = link.inbox.receive(&mut batch).await;
        let LinkEvent::Message(message) = &batch[0] else { panic!("{batch:?}") };
        assert_eq!(&message[..], b"{}");
    }
}
