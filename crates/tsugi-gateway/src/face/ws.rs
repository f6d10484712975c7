//! MCP over WebSocket: one message per text frame, subprotocol `mcp`, both eras.

mod message_admission;

use std::sync::Arc;
use std::time::Duration;

use ::http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use ::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hyper::Request;
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tsugi_protocol::answer::FaultCode;
use tsugi_protocol::codec::InputLimits as CodecLimits;
use tsugi_protocol::json::write::on_one_line;

use self::message_admission::MessageAdmission;
use super::peer::ClientPeer;
use super::{FaceRequest, http};
use crate::backend::Endpoint;
use crate::body::ResponseBody;
use crate::gateway::{Gateway, StreamEnd};
use crate::guard::refusal::HttpRefusal;

/// How long a client that does not read may hold us up.
const STALL: Duration = CodecLimits::STALL;

type WsSocket = WebSocketStream<MessageAdmission<TokioIo<Upgraded>>>;

/// The future of a connection's upgrade, taken before the request's head is read.
pub(crate) fn upgrade_of(request: &mut Request<Incoming>) -> Option<OnUpgrade> {
    let wants_it = request.method() == Method::GET && request.headers().contains_key(SEC_WEBSOCKET_KEY);
    wants_it.then(|| hyper::upgrade::on(request))
}

/// Turns the connection into a WebSocket.
pub(crate) fn open(
    mut face_request: FaceRequest<'_>,
    endpoint: Endpoint,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let (Some(upgrade), Some(accept)) = (face_request.upgrade.take(), accept_key(&face_request.parts.headers)) else {
        let message = "this address speaks WebSocket";
        return Err(HttpRefusal::new(StatusCode::UPGRADE_REQUIRED, FaultCode::InvalidRequest, message));
    };
    let room = face_request.gateway.take_stream()?;
    let limits = Arc::new(face_request.gateway.config().limits.clone());
    let ending = face_request
        .gateway
        .until_dismissed(face_request.gateway.drain().closing().clone().cancelled_owned(), &face_request.principal);
    let peer =
        ClientPeer::new(endpoint.answer, face_request.principal.caller(), limits).until(face_request.gateway.drain());
    let peer = peer.at(face_request.policy_address());
    face_request.gateway.tasks().spawn(serve(face_request.gateway.clone(), upgrade, peer, ending, room));
    let mut response = http::empty(StatusCode::SWITCHING_PROTOCOLS);
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    if offers_mcp(&face_request.parts.headers) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("mcp"));
    }
    Ok(response)
}

fn accept_key(headers: &HeaderMap) -> Option<HeaderValue> {
    let is_websocket = headers.get(UPGRADE)?.as_bytes().eq_ignore_ascii_case(b"websocket");
    let is_current = headers.get(SEC_WEBSOCKET_VERSION)?.as_bytes() == b"13";
    let key = derive_accept_key(headers.get(SEC_WEBSOCKET_KEY)?.as_bytes());
    (is_websocket && is_current).then(|| HeaderValue::from_str(&key).ok())?
}

fn offers_mcp(headers: &HeaderMap) -> bool {
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    offered.flat_map(|value| value.split(',')).any(|protocol| protocol.trim() == "mcp")
}

/// Serves one socket until its client, its key or the gateway is gone. It takes the room of a stream: the connection's
/// own was given back when it became a WebSocket.
async fn serve(
    gateway: Arc<Gateway>,
    upgrade: OnUpgrade,
    mut peer: ClientPeer,
    mut ending: StreamEnd,
    _room: OwnedSemaphorePermit,
) {
    let Ok(upgraded) = upgrade.await else { return };
    let limits = &gateway.config().limits;
    let config = WebSocketConfig::default().max_message_size(Some(limits.body)).max_frame_size(Some(limits.body));
    let wire = MessageAdmission::new(TokioIo::new(upgraded), gateway.arriving().clone(), limits.body_timeout);
    let mut socket = WebSocketStream::from_raw_socket(wire, Role::Server, Some(config)).await;
    let every = limits.keep_alive;
    let mut pings = interval_at(Instant::now() + every, every);
    loop {
        let is_open = tokio::select! {
            received = socket.next() => match received {
                Some(Ok(message)) => receive(&mut socket, &mut peer, message, &mut ending).await,
                _ => false,
            },
            message = peer.next() => send(&mut socket, &message, &mut ending).await,
            _ = pings.tick() => write(&mut socket, Message::Ping(Bytes::new()), &mut ending).await,
            () = &mut ending => false,
        };
        if !is_open {
            // The client may be gone already; then the close frame is not worth a longer wait.
            let _ = timeout(Duration::from_secs(1), socket.close(None)).await;
            return;
        }
    }
}

async fn receive(socket: &mut WsSocket, peer: &mut ClientPeer, message: Message, ending: &mut StreamEnd) -> bool {
    match message.is_ping() || message.is_pong() {
        true => socket.get_mut().control(message.len()),
        false => socket.get_mut().message(),
    }
    let bytes = match message {
        Message::Text(text) => Bytes::from(text),
        Message::Binary(bytes) => bytes,
        Message::Close(_) => return false,
        Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => return true,
    };
    match peer.receive(bytes) {
        Some(answer) => send(socket, &answer, ending).await,
        None => true,
    }
}

async fn send(socket: &mut WsSocket, message: &Bytes, ending: &mut StreamEnd) -> bool {
    match Utf8Bytes::try_from(on_one_line(message)) {
        Ok(text) => write(socket, Message::Text(text), ending).await,
        // Our messages are JSON that was proved to be UTF-8.
        Err(_) => false,
    }
}

/// False when the client is gone or does not read. Stopping does not wait for one that does not.
async fn write(socket: &mut WsSocket, message: Message, ending: &mut StreamEnd) -> bool {
    tokio::select! {
        biased;
        sent = timeout(STALL, socket.send(message)) => matches!(sent, Ok(Ok(()))),
        () = ending => false,
    }
}
