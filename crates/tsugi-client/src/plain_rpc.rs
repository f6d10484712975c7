//! A client for servers that only answer JSON-RPC at `POST <url>/rpc`: no handshake, no session, no stream.
//!
//! Such a server does not declare what it offers, so each of its lists is requested once when it is connected. From then
//! on it is used like a server in this process: it cannot ask back, and there is no connection to lose.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;
use serde_json::{Map, Value, json};
use tsugi_protocol::answer::{Answer, Call, CallFailure, CallStage, Fault, FaultCode, Outcome, Reply};
use tsugi_protocol::era;
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};
use tsugi_protocol::mcp::{Era, Method, ServerCapabilities, ServerIdentity};
use tsugi_transport::TransportError;
use tsugi_transport::http::{BodyKind, HttpClient, HttpTarget};
use url::Url;

use crate::connection::context::ConnectionContext;
use crate::connection::in_process::InProcessConnection;
use crate::connection::parse_response;
use crate::error::{call_fault, connect_fault};

/// Answers calls with one POST each. Cheap to clone.
#[derive(Clone)]
struct PlainRpcClient(Arc<PlainRpcState>);

struct PlainRpcState {
    context: Arc<ConnectionContext>,
    client: HttpClient,
    identity: Arc<ServerIdentity>,
    next_id: AtomicU64,
}

/// Connects: finds out which lists the server has.
pub(crate) async fn open(context: Arc<ConnectionContext>, target: HttpTarget) -> Result<InProcessConnection, Fault> {
    let limit = context.options.handshake_timeout;
    let url = rpc_url(&target.url);
    let client = HttpClient::new(HttpTarget { url, ..target });
    let late = context.fault(FaultCode::Timeout, format!("no answer within {} s", limit.as_secs()));
    match tokio::time::timeout(limit, discover(&context, &client)).await {
        Ok(identity) => {
            let identity = identity?;
            let state = PlainRpcState::new(context.clone(), client, identity.clone());
            Ok(InProcessConnection::new(context, Arc::new(PlainRpcClient(Arc::new(state))), identity))
        }
        Err(_) => Err(late.at(CallStage::Handshake)),
    }
}

/// The address of the endpoint: `/rpc` below the configured one, unless that is it already.
fn rpc_url(url: &Url) -> Url {
    let mut endpoint = url.clone();
    if !url.path().ends_with("/rpc")
        && let Ok(mut segments) = endpoint.path_segments_mut()
    {
        segments.pop_if_empty().push("rpc");
    }
    endpoint
}

/// A server has a capability when it answers the list of it.
async fn discover(context: &Arc<ConnectionContext>, client: &HttpClient) -> Result<ServerIdentity, Fault> {
    let nothing = identity(context, Map::new());
    let probe = PlainRpcState::new(context.clone(), client.clone(), nothing);
    let lists = [("tools", Method::ToolsList), ("resources", Method::ResourcesList), ("prompts", Method::PromptsList)];
    let mut capabilities = Map::new();
    for (feature, method) in lists {
        match probe.outcome(&Call::bare(method)).await {
            Outcome::Complete(_) => drop(capabilities.insert(feature.to_owned(), json!({}))),
            // It is there, but does not know this list.
            Outcome::Failed(CallFailure::Upstream(_)) | Outcome::InputRequired(_) => {}
            Outcome::Failed(CallFailure::Fault(fault)) => return Err(fault.at(CallStage::Handshake)),
        }
    }
    Ok(identity(context, capabilities))
}

fn identity(context: &ConnectionContext, capabilities: Map<String, Value>) -> ServerIdentity {
    ServerIdentity {
        info: Some(RawJson::from(json!({"name": &*context.server, "version": ""}))),
        version: context.options.legacy_version,
        capabilities: ServerCapabilities::from_object(JsonObject::from(Value::Object(capabilities))),
        instructions: None,
        supported_versions: Vec::new(),
    }
}

impl PlainRpcState {
    fn new(context: Arc<ConnectionContext>, client: HttpClient, identity: ServerIdentity) -> Self {
        Self { context, client, identity: Arc::new(identity), next_id: AtomicU64::new(1) }
    }

    /// Posts one request and reads its answer.
    async fn outcome(&self, call: &Call) -> Outcome {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut request = ObjectWriter::with_capacity(256);
        era::write_request(&mut request, id, call, Era::Legacy);
        let message = request.finish_object().bytes().clone();
        let failed = |error: &TransportError| Outcome::fault(call_fault(error).on_server(&self.context.server));
        let response = match self.client.post(message, HeaderMap::new()).await {
            Ok(response) => response,
            // Nothing was sent, so it is a connection that could not be made.
            Err(error) if !error.may_be_sent => {
                return Outcome::fault(connect_fault(&error).on_server(&self.context.server));
            }
            Err(error) => return failed(&error),
        };
        // Some servers send a JSON-RPC error with a 4xx or 5xx status; the error says more than the status.
        if !response.status.is_success() && response.kind() != BodyKind::Json {
            return failed(&response.status_error());
        }
        match response.bytes().await {
            Ok(line) => parse_response::answer(&self.context, &self.identity, call, id, line),
            Err(error) => failed(&error),
        }
    }
}

impl Answer for PlainRpcClient {
    fn answer(&self, call: Call) -> Reply {
        let state = self.0.clone();
        Reply::from_future(async move { state.outcome(&call).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_go_to_rpc_below_the_address() {
        let endpoint = |url: &str| rpc_url(&url.parse().unwrap()).to_string();
        assert_eq!(endpoint("http://localhost:1/mcp"), "http://localhost:1/mcp/rpc");
        assert_eq!(endpoint("http://localhost:1/mcp/"), "http://localhost:1/mcp/rpc");
        assert_eq!(endpoint("http://localhost:1"), "http://localhost:1/rpc");
        assert_eq!(endpoint("http://localhost:1/mcp/rpc?key=1"), "http://localhost:1/mcp/rpc?key=1");
    }
}
