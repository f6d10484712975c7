//! Who is measured: the bare wire, tsugi's client, the official SDK's client.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::CallToolRequestParams;
use rmcp::service::{Peer, RoleClient, RunningService, ServiceExt};
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig};
use rmcp::transport::TokioChildProcess;
use tsugi_client::config::{CachePolicy, ValidationMode, ValidatePolicy};
use tsugi_client::{Manager, ManagerOptions, Server, ServerConfig, ConnectTarget};
use tsugi_protocol::answer::{Answer, Call, Outcome};
use tsugi_protocol::json::RawJson;

use crate::bare;

/// The HTTP back end, started once for all cells.
pub struct HttpBackEnd {
    pub url: String,
    _child: tokio::process::Child,
}

impl HttpBackEnd {
    pub async fn start(bin: &Path) -> Self {
        let port = free_port();
        let child = tokio::process::Command::new(bin.join("rig-http"))
            .args(["--port", &port.to_string(), "--threads", "1"])
            .kill_on_drop(true)
            .spawn()
            .expect("the HTTP back end starts");
        for _ in 0..200 {
            if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Self { url: format!("http://127.0.0.1:{port}/mcp"), _child: child }
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// A contender for one cell. Cheap to clone.
#[derive(Clone)]
pub enum Contender {
    BarePipe(Arc<bare::Pipe>),
    BareHttp(bare::Http),
    Tsugi(Arc<Tsugi>),
    Rmcp(Arc<Rmcp>),
}

pub struct Tsugi {
    _manager: Manager,
    server: Server,
    size: usize,
}

pub struct Rmcp {
    _service: RunningService<RoleClient, ()>,
    peer: Peer<RoleClient>,
    size: usize,
}

impl Contender {
    pub async fn new(kind: &str, wire: &str, size: usize, bin: &Path, http: &HttpBackEnd) -> Self {
        match (kind, wire) {
            ("bare", "stdio") => Contender::BarePipe(bare::Pipe::new(size, bin)),
            ("bare", _) => Contender::BareHttp(bare::Http::new(&http.url, size)),
            ("tsugi", _) => Contender::Tsugi(tsugi(wire, size, bin, http, bare_connection).await),
            ("stack", _) => Contender::Tsugi(tsugi(wire, size, bin, http, whole_stack).await),
            ("keeping", _) => Contender::Tsugi(tsugi(wire, size, bin, http, keeping_stack).await),
            _ => Contender::Rmcp(rmcp(wire, size, bin, http).await),
        }
    }

    pub async fn worker(&self) -> Worker {
        static WORKERS: AtomicUsize = AtomicUsize::new(0);
        Worker { contender: self.clone(), line: Vec::new(), number: WORKERS.fetch_add(1, Ordering::Relaxed), turn: 0 }
    }
}

/// The connection with its deadlines, as a client without a manager's layers has it.
fn bare_connection(config: &mut ServerConfig) {
    config.validate = ValidatePolicy { arguments: ValidationMode::Off, results: ValidationMode::Off };
    (config.retry, config.limit, config.breaker, config.cache) = (None, None, None, None);
}

/// What a server has unless configured otherwise, with everything checked and the cache asked, which never has the
/// answer and keeps none.
fn whole_stack(config: &mut ServerConfig) {
    config.validate = ValidatePolicy { arguments: ValidationMode::Enforce, results: ValidationMode::Enforce };
    config.cache = Some(CachePolicy { ttl: Duration::ZERO, ..CachePolicy::default() });
}

/// The same with a cache that keeps every answer, and lets another go for each.
fn keeping_stack(config: &mut ServerConfig) {
    whole_stack(config);
    config.cache = Some(CachePolicy::default());
}

async fn tsugi(
    wire: &str,
    size: usize,
    bin: &Path,
    http: &HttpBackEnd,
    configure: fn(&mut ServerConfig),
) -> Arc<Tsugi> {
    let manager = Manager::new(ManagerOptions::default());
    let target = match wire {
        "stdio" => ConnectTarget::stdio(tsugi_process::JobCommand::new(bin.join("rig-stdio"))),
        _ => ConnectTarget::url(http.url.parse().expect("an address"), Default::default()).expect("HTTP"),
    };
    let mut config = ServerConfig::new("rig", target);
    configure(&mut config);
    let server = manager.register(config).expect("a server");
    server.ready(Duration::from_secs(10)).await.expect("a catalog");
    Arc::new(Tsugi { _manager: manager, server, size })
}

async fn rmcp(wire: &str, size: usize, bin: &Path, http: &HttpBackEnd) -> Arc<Rmcp> {
    let service = match wire {
        "stdio" => {
            let program: PathBuf = bin.join("rig-stdio");
            let transport = TokioChildProcess::new(tokio::process::Command::new(program)).expect("the back end starts");
            ().serve(transport).await.expect("rmcp connects")
        }
        _ => {
            let config = StreamableHttpClientTransportConfig::with_uri(http.url.as_str());
            let transport = StreamableHttpClientTransport::with_client(reqwest::Client::new(), config);
            ().serve(transport).await.expect("rmcp connects")
        }
    };
    let peer = service.peer().clone();
    Arc::new(Rmcp { _service: service, peer, size })
}

/// One task's view of a contender.
pub struct Worker {
    contender: Contender,
    line: Vec<u8>,
    number: usize,
    turn: usize,
}

impl Worker {
    /// Another one for every call, so that a cache is asked and never has the answer.
    fn tag(&self) -> String {
        format!("{}-{}", self.number, self.turn)
    }

    /// One call to its end; an answer that is none ends the run.
    pub async fn call(&mut self) {
        self.turn += 1;
        match &self.contender {
            Contender::BarePipe(pipe) => pipe.exchange(&mut self.line).await,
            Contender::BareHttp(http) => http.exchange().await,
            Contender::Tsugi(tsugi) => {
                let arguments = format!(r#"{{"size":{},"tags":["{}"]}}"#, tsugi.size, self.tag());
                let arguments = RawJson::parse(arguments.into()).expect("JSON");
                let outcome = tsugi.server.answer(Call::tool("echo", Some(&arguments))).outcome().await;
                assert!(matches!(outcome, Outcome::Complete(_)), "{outcome:?}");
            }
            Contender::Rmcp(rmcp) => {
                let arguments = serde_json::json!({"size": rmcp.size, "tags": [self.tag()]}).as_object().cloned().unwrap_or_default();
                let params = CallToolRequestParams::new("echo").with_arguments(arguments);
                let result = rmcp.peer.call_tool(params).await.expect("rmcp calls");
                assert!(!result.content.is_empty());
            }
        }
    }
}
