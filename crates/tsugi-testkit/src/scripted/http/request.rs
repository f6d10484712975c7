//! Reading one HTTP request.

use std::io::BufRead;

use serde_json::{Value, json};

/// A request with its whole body.
#[derive(Debug, Clone)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpRequest {
    /// The next request; `None` when the connection is over or what comes is no HTTP.
    pub(crate) fn read(reader: &mut impl BufRead) -> Option<Self> {
        let line = line(reader)?;
        let mut words = line.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (path, query) = (path.to_owned(), query.to_owned());
        let mut request = Self { method, path, query, headers: Vec::new(), body: Vec::new() };
        loop {
            let header = self::line(reader)?;
            if header.is_empty() {
                break;
            }
            let (name, value) = header.split_once(':')?;
            request.headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
        request.body = request.read_body(reader)?;
        Some(request)
    }

    fn read_body(&self, reader: &mut impl BufRead) -> Option<Vec<u8>> {
        if self.header("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
            return read_chunks(reader);
        }
        let length = self.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        Some(body)
    }

    /// The first header of this name, which is given in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// For the journal: everything but the body.
    pub(super) fn described(&self) -> Value {
        let headers: serde_json::Map<String, Value> =
            self.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        json!({"method": self.method, "path": self.path, "query": self.query, "headers": headers})
    }
}

fn line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    match reader.read_until(b'\n', &mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned()),
    }
}

fn read_chunks(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = usize::from_str_radix(line(reader)?.split(';').next()?.trim(), 16).ok()?;
        let start = body.len();
        body.resize(start + size, 0);
        reader.read_exact(&mut body[start..]).ok()?;
        line(reader)?;
        if size == 0 {
            return Some(body);
        }
    }
}
