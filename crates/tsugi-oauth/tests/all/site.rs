//! A small HTTP site on a loopback port: a closure answers, and every request is written down.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Debug, Clone, Default)]
pub(crate) struct SiteRequest {
    /// With the query.
    pub(crate) target: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl SiteRequest {
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    fn pairs(text: &str) -> HashMap<String, String> {
        url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
    }

    pub(crate) fn query(&self) -> HashMap<String, String> {
        Self::pairs(self.target.split_once('?').map_or("", |(_, query)| query))
    }

    pub(crate) fn form(&self) -> HashMap<String, String> {
        Self::pairs(&self.body)
    }

    /// Everything of the request, to search for what must not be in it.
    pub(crate) fn text(&self) -> String {
        format!("{} {:?} {}", self.target, self.headers, self.body)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct SiteAnswer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl SiteAnswer {
    pub(crate) fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: String::new() }
    }

    pub(crate) fn json(status: u16, body: &serde_json::Value) -> Self {
        Self { body: body.to_string(), ..Self::new(status).with("content-type", "application/json") }
    }

    pub(crate) fn html(status: u16) -> Self {
        Self { body: "<html>".to_owned(), ..Self::new(status).with("content-type", "text/html") }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

type SiteHandler = Arc<dyn Fn(&SiteRequest) -> SiteAnswer + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) url: String,
    journal: Arc<Mutex<Vec<SiteRequest>>>,
}

impl Site {
    /// Starts a site. `handler` is given its own address first.
    pub(crate) async fn start<H>(make: impl FnOnce(String) -> H) -> Self
    where
        H: Fn(&SiteRequest) -> SiteAnswer + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let site = Self { url: url.clone(), journal: Arc::default() };
        let (journal, handler): (_, SiteHandler) = (site.journal.clone(), Arc::new(make(url)));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, journal.clone(), handler.clone()));
            }
        });
        site
    }

    pub(crate) fn requests(&self) -> Vec<SiteRequest> {
        self.journal.lock().unwrap().clone()
    }

    pub(crate) fn requests_to(&self, path: &str) -> Vec<SiteRequest> {
        self.requests().into_iter().filter(|request| request.path() == path).collect()
    }

    pub(crate) fn count(&self, path: &str) -> usize {
        self.requests_to(path).len()
    }
}

async fn serve(mut stream: TcpStream, journal: Arc<Mutex<Vec<SiteRequest>>>, handler: SiteHandler) {
    let Some(request) = read(&mut stream).await else { return };
    journal.lock().unwrap().push(request.clone());
    let answer = handler(&request);
    let mut text =
        format!("HTTP/1.1 {} X\r\nconnection: close\r\ncontent-length: {}\r\n", answer.status, answer.body.len());
    for (name, value) in &answer.headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += &format!("\r\n{}", answer.body);
    let _ = stream.write_all(text.as_bytes()).await;
}

async fn read(stream: &mut TcpStream) -> Option<SiteRequest> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).ok()?;
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let target = words.nth(1)?.to_owned();
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    while bytes.len() < head_end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8(bytes[head_end..].to_vec()).ok()?;
    Some(SiteRequest { target, headers, body })
}

/// One GET without following redirects: the status and `Location`.
pub(crate) async fn visit(url: &url::Url) -> (u16, Option<String>) {
    let mut stream = TcpStream::connect((url.host_str().unwrap(), url.port().unwrap())).await.unwrap();
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let request = format!("GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    let location = text.lines().find_map(|line| line.strip_prefix("location: ").map(str::to_owned));
    (status, location)
}
