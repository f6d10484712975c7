//! A peer whose answers are scripted byte by byte, and which records what it was asked.
//!
//! ```no_run
//! use tsugi_testkit::fake::{Fake, reply};
//! // Resets the connection in the middle of the first answer, then answers well.
//! let fake = Fake::start(|request| match request.number {
//!     1 => reply::reset_in_body(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
//!     _ => reply::json(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#),
//! });
//! let _url = fake.url();
//! ```

mod gzip;
mod hole;
pub mod reply;
mod step;
pub mod tls;

use std::io::BufReader;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::scripted::HttpRequest;
pub use hole::{BlackHole, refused};
pub use step::{Step, Steps};

/// One request that a fake received.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Which request of all, counted from 1.
    pub number: usize,
    /// On which connection, counted from 1.
    pub connection: usize,
    /// The method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Recorded {
    /// The first header of this name, which is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null when it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The id of the JSON-RPC request, as it was written.
    pub fn id(&self) -> String {
        self.json()["id"].to_string()
    }
}

type Behaviour = dyn Fn(&Recorded) -> Steps + Send + Sync;

/// A fake peer on the loopback. It ends when it is dropped.
pub struct Fake {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
}

struct Shared {
    mode: Mode,
    recorded: Mutex<Vec<Recorded>>,
    connections: AtomicUsize,
    is_ended: AtomicBool,
}

enum Mode {
    /// Each request is read, then answered.
    Http(Box<Behaviour>),
    /// Each request is read out of TLS, then answered.
    Tls(Arc<rustls::ServerConfig>, Box<Behaviour>),
    /// Nothing is read first.
    Raw(Steps),
}

impl Fake {
    /// Reads HTTP requests and does what `behaviour` says for each.
    pub fn start(behaviour: impl Fn(&Recorded) -> Steps + Send + Sync + 'static) -> Self {
        Self::serve("http", Mode::Http(Box::new(behaviour)))
    }

    /// The same inside TLS.
    pub fn start_tls(
        certificate: tls::Certificate,
        behaviour: impl Fn(&Recorded) -> Steps + Send + Sync + 'static,
    ) -> Self {
        Self::serve("https", Mode::Tls(certificate.server_config(), Box::new(behaviour)))
    }

    /// Does the same with every connection, without reading anything first.
    pub fn on_connect(steps: Steps) -> Self {
        Self::serve("http", Mode::Raw(steps))
    }

    /// Accepts and says nothing: a TLS handshake or an answer that never comes.
    pub fn silent() -> Self {
        Self::on_connect(vec![Step::Hold])
    }

    fn serve(scheme: &'static str, mode: Mode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (recorded, connections, is_ended) = Default::default();
        let shared = Arc::new(Shared { mode, recorded, connections, is_ended });
        let accepting = shared.clone();
        std::thread::spawn(move || accept(&listener, &accepting));
        Self { address, scheme, shared }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of an MCP endpoint on it.
    pub fn url(&self) -> String {
        let host = if self.scheme == "https" { "localhost" } else { "127.0.0.1" };
        format!("{}://{host}:{}/mcp", self.scheme, self.address.port())
    }

    /// What it received so far.
    pub fn recorded(&self) -> Vec<Recorded> {
        self.shared.recorded.lock().clone()
    }

    /// How many requests it received.
    pub fn requests(&self) -> usize {
        self.shared.recorded.lock().len()
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for Fake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fake({})", self.address)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.shared.is_ended.store(true, Ordering::Release);
        TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).ok();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for socket in listener.incoming().flatten() {
        if shared.is_ended.load(Ordering::Acquire) {
            return;
        }
        let connection = shared.connections.fetch_add(1, Ordering::AcqRel) + 1;
        let shared = shared.clone();
        std::thread::spawn(move || shared.connect(socket, connection));
    }
}

impl Shared {
    fn connect(&self, socket: TcpStream, connection: usize) {
        socket.set_nodelay(true).ok();
        match &self.mode {
            Mode::Raw(steps) => _ = step::perform(&mut BufReader::new(socket), steps),
            Mode::Http(behaviour) => self.converse(BufReader::new(socket), behaviour, connection),
            Mode::Tls(config, behaviour) => {
                let Ok(session) = rustls::ServerConnection::new(config.clone()) else { return };
                let stream = rustls::StreamOwned::new(session, socket);
                self.converse(BufReader::new(stream), behaviour, connection);
            }
        }
    }

    fn converse<P: step::Peer>(&self, mut peer: BufReader<P>, behaviour: &Behaviour, connection: usize) {
        while let Some(request) = HttpRequest::read(&mut peer) {
            let recorded = self.record(request, connection);
            if step::perform(&mut peer, &behaviour(&recorded)) == step::Goes::Over {
                return;
            }
        }
    }

    fn record(&self, request: HttpRequest, connection: usize) -> Recorded {
        let mut all = self.recorded.lock();
        let HttpRequest { method, path, headers, body, .. } = request;
        let recorded = Recorded { number: all.len() + 1, connection, method, path, headers, body };
        all.push(recorded.clone());
        recorded
    }
}
