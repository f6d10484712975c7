//! A scripted server over WebSocket: one message per text frame, subprotocol `mcp`.

use std::os::unix::net::UnixStream;
use std::path::Path;

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_tungstenite::accept_hdr_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tsugi_testkit::journal::Journal;
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::serve;

/// It ends when it is dropped.
pub(super) struct WebSocketServer {
    url: String,
    folder: tempfile::TempDir,
    task: AbortHandle,
}

impl WebSocketServer {
    pub(super) async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/ws", listener.local_addr().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().to_owned();
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(talk(socket, spawn_server(&script, &state)));
            }
        });
        Self { url, folder, task: task.abort_handle() }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn journal(&self) -> Journal {
        Journal::at(self.folder.path())
    }
}

impl Drop for WebSocketServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The server in a thread of its own, at the other end of a pair of sockets.
fn spawn_server(script: &Script, state: &Path) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (script, state) = (script.clone(), state.to_owned());
    std::thread::spawn(move || serve(&script, Some(&state), theirs.try_clone().unwrap(), theirs).unwrap());
    ours.set_nonblocking(true).unwrap();
    ours
}

async fn talk(socket: TcpStream, server: UnixStream) {
    let with_protocol = |_: &Request, mut response: Response| {
        response.headers_mut().insert("sec-websocket-protocol", http::HeaderValue::from_static("mcp"));
        Ok(response)
    };
    let Ok(socket) = accept_hdr_async(socket, with_protocol).await else { return };
    let (mut sink, mut stream) = socket.split();
    let (output, mut input) = tokio::net::UnixStream::from_std(server).unwrap().into_split();
    let mut lines = BufReader::new(output).lines();
    let to_client = async {
        while let Ok(Some(line)) = lines.next_line().await {
            if sink.send(Message::text(line)).await.is_err() {
                return;
            }
        }
    };
    let to_server = async {
        while let Some(Ok(frame)) = stream.next().await {
            let Message::Text(text) = frame else { continue };
            if input.write_all(format!("{text}\n").as_bytes()).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = to_client => {}
        () = to_server => {}
    }
}
