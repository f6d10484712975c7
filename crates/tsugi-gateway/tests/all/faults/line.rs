//! One HTTP connection that is used again and again, as real clients do.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Far above what any answer needs: what takes longer is unanswered.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that stays open.
pub(crate) struct Line {
    address: SocketAddr,
    stream: TcpStream,
    unread: Vec<u8>,
}

/// One answer: its status and its body, chunks joined.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Line {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { address, stream, unread: Vec::new() }
    }

    /// Sends a POST and reads its answer; nothing when none comes.
    pub(crate) async fn post(&mut self, path: &str, headers: &[(&str, &str)], body: &str) -> Option<Answered> {
        let mut head = format!("POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n", self.address, body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.ok()?;
        tokio::time::timeout(PATIENCE, self.read()).await.ok()?
    }

    async fn read(&mut self) -> Option<Answered> {
        let head = self.take_until(b"\r\n\r\n").await?;
        let head = String::from_utf8_lossy(&head).to_lowercase();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let body = match length {
            Some(length) => self.take(length.trim().parse().ok()?).await?,
            None if head.contains("transfer-encoding: chunked") => self.take_chunks().await?,
            None => Vec::new(),
        };
        Some(Answered { status, head, body: String::from_utf8(body).ok()? })
    }

    async fn take_chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let size = self.take_until(b"\r\n").await?;
            let size = usize::from_str_radix(std::str::from_utf8(&size).ok()?.trim(), 16).ok()?;
            let chunk = self.take(size + 2).await?;
            if size == 0 {
                return Some(body);
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }

    async fn take_until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.unread.windows(end.len()).position(|part| part == end) {
                return Some(self.unread.drain(..at + end.len()).collect());
            }
            self.fill().await?;
        }
    }

    async fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.unread.len() < count {
            self.fill().await?;
        }
        Some(self.unread.drain(..count).collect())
    }

    async fn fill(&mut self) -> Option<()> {
        (self.stream.read_buf(&mut self.unread).await.ok()? > 0).then_some(())
    }
}
