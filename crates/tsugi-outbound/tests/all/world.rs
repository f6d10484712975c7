//! A sink that counts who reaches it, and lookups that lie.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tsugi_outbound::NameLookup;

/// A listener on loopback that counts connections and answers each request alike.
pub(crate) struct CountingSink {
    pub(crate) address: SocketAddr,
    count: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl CountingSink {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, count) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
        let counted = count.clone();
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let mut buffer = [0; 4096];
                    let mut request = Vec::new();
                    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
                        match stream.read(&mut buffer).await {
                            Ok(count) if count > 0 => request.extend_from_slice(&buffer[..count]),
                            _ => return,
                        }
                    }
                    let text = String::from_utf8_lossy(&request);
                    let body = text.lines().next().unwrap_or_default().to_owned() + "|" + host_of(&text);
                    let answer =
                        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        Self { address, count, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

impl Drop for CountingSink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn host_of(request: &str) -> &str {
    request.lines().find_map(|line| line.strip_prefix("host: ").or(line.strip_prefix("Host: "))).unwrap_or_default()
}

/// The spellings that every field must refuse.
pub(crate) fn spellings() -> Vec<&'static str> {
    let lines = include_str!("../spellings.txt").lines();
    lines.filter(|line| !line.starts_with('#') && !line.is_empty()).collect()
}

/// What the names of the list stand for. `rebound.test` is public at first and private from then on.
pub(crate) fn lying_lookup() -> (NameLookup, Arc<AtomicUsize>) {
    let asked = Arc::<AtomicUsize>::default();
    let counted = asked.clone();
    let lookup = NameLookup::from_fn(move |name| {
        let round = counted.fetch_add(1, Ordering::SeqCst);
        let answer: &[&str] = match name.as_str() {
            "private.test" => &["10.0.0.1"],
            "mixed.test" => &["93.184.216.34", "127.0.0.1"],
            "mapped.test" => &["::ffff:127.0.0.1"],
            "translated.test" => &["64:ff9b::a9fe:a9fe"],
            "rebound.test" if round == 0 => &["93.184.216.34"],
            "good.test" => &["93.184.216.34", "2606:2800:220:1::1"],
            _ => &["127.0.0.1"],
        };
        let answer: Vec<IpAddr> = answer.iter().map(|text| text.parse().unwrap()).collect();
        std::future::ready(Ok(answer))
    });
    (lookup, asked)
}
