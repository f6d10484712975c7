//! A handler written against the official Rust SDK (`rmcp`) as a server in this process.
//!
//! Messages go through two queues as JSON: no pipe and no framing. `rmcp` reads and writes them with types of its
//! own, so members that it does not know are lost, as they are with every `rmcp` server.

use std::sync::Arc;

use bytes::Bytes;
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{ServerHandler, ServiceExt};
use tokio::sync::mpsc;
use tsugi_transport::link::{Inbox, Outbox};
use tsugi_transport::{Link, TransportError, TransportErrorKind};

use crate::config::{ConnectTarget, LinkSource};

/// How many messages may wait in each direction.
const QUEUE: usize = 256;

/// A target that runs a handler. `make` is called for every connection, so that a restart begins with a fresh one.
pub fn target<H: ServerHandler>(make: impl Fn() -> H + Send + Sync + 'static) -> ConnectTarget {
    ConnectTarget::Link(LinkSource::new(move || connect(make())))
}

/// A target that runs one handler, shared by all connections.
pub fn shared<H: ServerHandler>(handler: Arc<H>) -> ConnectTarget {
    target(move || handler.clone())
}

/// Starts the handler on one end of a link and gives the other. It ends when that one is dropped.
fn connect(handler: impl ServerHandler) -> Link {
    let (to_server, from_client) = mpsc::channel(QUEUE);
    let (to_client, from_server) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let queues = QueueTransport { incoming: from_client, outgoing: to_client };
        match handler.serve(queues).await {
            Ok(running) => drop(running.waiting().await),
            Err(error) => tracing::warn!(%error, "a handler in this process did not start"),
        }
    });
    Link { outbox: Outbox::Queue(to_server), inbox: Inbox::Queue(from_server), job: None }
}

/// The handler's end.
struct QueueTransport {
    incoming: mpsc::Receiver<Bytes>,
    outgoing: mpsc::Sender<Result<Bytes, TransportError>>,
}

impl Transport<RoleServer> for QueueTransport {
    type Error = TransportError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), TransportError>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        async move {
            let unsent = |kind, why: String| TransportError::unsent(kind, why);
            let message = serde_json::to_vec(&message).map_err(|error| {
                unsent(TransportErrorKind::Protocol, format!("the message cannot be written as JSON: {error}"))
            })?;
            let gone = |_| unsent(TransportErrorKind::Lost, "the client is gone".to_owned());
            outgoing.send(Ok(message.into())).await.map_err(gone)
        }
    }

    /// A message that `rmcp` cannot read is passed over, as it does itself on a pipe.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = self.incoming.recv().await?;
            match serde_json::from_slice(&message) {
                Ok(message) => return Some(message),
                Err(error) => tracing::debug!(%error, "a handler in this process cannot read a message"),
            }
        }
    }

    async fn close(&mut self) -> Result<(), TransportError> {
        self.incoming.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Manager, ManagerOptions, ServerConfig};
    use rmcp::ErrorData;
    use rmcp::model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ListToolsResult, PaginatedRequestParams,
        ServerCapabilities, ServerConfig as Info,
    };
    use rmcp::service::RequestContext;
    use serde_json::{Value, json};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[derive(Default)]
    struct Doubler {
        calls: AtomicUsize,
    }

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    impl ServerHandler for Doubler {
        fn get_info(&self) -> Info {
            let mut info = Info::default();
            info.capabilities = ServerCapabilities::builder().enable_tools().build();
            info
        }

        async fn list_tools(
            &self,
            _: Option<PaginatedRequestParams>,
            _: RequestContext<RoleServer>,
        ) -> Result<ListToolsResult, ErrorData> {
            let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
            Ok(read(json!({"tools": [{"name": "double", "description": "Doubles.", "inputSchema": schema}]})))
        }

        async fn call_tool(
            &self,
            request: CallToolRequestParams,
            _: RequestContext<RoleServer>,
        ) -> Result<CallToolResponse, ErrorData> {
            self.calls.fetch_add(1, Ordering::SeqCst);
            let number = request.arguments.and_then(|arguments| arguments["n"].as_i64()).unwrap_or(0);
            let text = (number * 2).to_string();
            let result: CallToolResult = read(json!({"content": [{"type": "text", "text": text}]}));
            Ok(result.into())
        }
    }

    #[tokio::test]
    async fn a_handler_of_the_official_sdk_is_a_server_like_any_other() {
        let handler = Arc::new(Doubler::default());
        let manager = Manager::new(ManagerOptions::default());
        let server = manager.register(ServerConfig::new("rmcp", shared(handler.clone()))).unwrap();
        server.ready(Duration::from_secs(30)).await.unwrap();
        assert_eq!(manager.execute("double", &json!({"n": 21})).await.text().as_deref(), Some("42"));
        let error = manager.execute("double", &json!({"n": "x"})).await.error.unwrap();
        assert_eq!((error.code.as_str(), handler.calls.load(Ordering::SeqCst)), ("INVALID_PARAMS", 1));
        server.restart().await;
        assert_eq!(manager.execute("double", &json!({"n": 1})).await.text().as_deref(), Some("2"));
        manager.stop().await;
    }
}
