//! Syslog (RFC 5424) over TLS, framed as RFC 5425 has it.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{LineSink, SinkError, SinkReply, tls};
use crate::follow::FollowedLine;

/// Facility 13 (log audit), severity 6 (informational): RFC 5424 section 6.2.1.
const PRIORITY: u8 = 13 * 8 + 6;
/// The port of RFC 5425 section 4.1.
const PORT: u16 = 6514;

/// A collector that takes syslog over TLS.
pub struct SyslogSink {
    host: String,
    port: u16,
    server_name: ServerName<'static>,
    connector: TlsConnector,
    own_host: String,
    stream: Option<TlsStream<TcpStream>>,
    /// The batch before. Syslog has no acknowledgements: what was written shortly before a connection broke may be lost,
    /// so that it is sent again.
    unconfirmed: Vec<FollowedLine>,
}

impl SyslogSink {
    /// `url` is `tls://host:port`.
    pub fn new(url: &str, ca: Option<&Path>) -> Result<Self, String> {
        let parsed = url::Url::parse(url).map_err(|error| format!("the address of the syslog sink: {error}"))?;
        let host = parsed.host_str().filter(|_| parsed.scheme() == "tls");
        let host = host.ok_or("the address of the syslog sink must be tls://host:port")?.to_owned();
        let name = host.trim_matches(['[', ']']).to_owned();
        let server_name = ServerName::try_from(name.clone()).map_err(|error| error.to_string())?;
        let connector = TlsConnector::from(Arc::new(tls::client_config(ca)?));
        let own_host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let own_host = own_host.chars().filter(char::is_ascii_graphic).take(255).collect();
        let port = parsed.port().unwrap_or(PORT);
        Ok(Self { host: name, port, server_name, connector, own_host, stream: None, unconfirmed: Vec::new() })
    }

    async fn write(&mut self, lines: &[FollowedLine]) -> Result<(), SinkError> {
        let mut frames = Vec::new();
        if self.stream.is_none() {
            let socket = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(SinkError::unavailable)?;
            let stream = self.connector.connect(self.server_name.clone(), socket).await;
            self.stream = Some(stream.map_err(SinkError::unavailable)?);
            self.unconfirmed.iter().for_each(|line| write_frame(&mut frames, &self.own_host, line));
        }
        lines.iter().for_each(|line| write_frame(&mut frames, &self.own_host, line));
        let Some(stream) = &mut self.stream else { return Err(SinkError::unavailable("there is no connection")) };
        stream.write_all(&frames).await.map_err(SinkError::unavailable)?;
        stream.flush().await.map_err(SinkError::unavailable)?;
        self.unconfirmed = lines.to_vec();
        Ok(())
    }
}

impl LineSink for SyslogSink {
    fn send<'a>(&'a mut self, lines: &'a [FollowedLine]) -> SinkReply<'a> {
        Box::pin(async move {
            let result = self.write(lines).await;
            if result.is_err() {
                self.stream = None;
            }
            result
        })
    }
}

/// `MSG-LEN SP SYSLOG-MSG`, RFC 5425 section 4.3.
fn write_frame(frames: &mut Vec<u8>, own_host: &str, line: &FollowedLine) {
    let message = message(own_host, line);
    frames.extend_from_slice(format!("{} ", message.len()).as_bytes());
    frames.extend_from_slice(message.as_bytes());
}

/// RFC 5424 section 6. The line is JSON, so that it has no line end; the mark before it says that it is UTF-8.
fn message(own_host: &str, line: &FollowedLine) -> String {
    let value: Value = serde_json::from_str(&line.text).unwrap_or_default();
    let header = |name: &str, longest: usize| {
        let text: String =
            value[name].as_str().unwrap_or("-").chars().filter(char::is_ascii_graphic).take(longest).collect();
        if text.is_empty() { "-".to_owned() } else { text }
    };
    let (time, kind) = (header("time", 32), header("kind", 32));
    let host = if own_host.is_empty() { "-" } else { own_host };
    let process = std::process::id();
    format!("<{PRIORITY}>1 {time} {host} tsugi {process} {kind} - \u{feff}{}", line.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_length_in_bytes_and_the_header_of_the_standard() {
        let text = r#"{"kind":"denied","name":"é","time":"2026-11-18T04:15:00.123456Z"}"#;
        let mut frames = Vec::new();
        write_frame(&mut frames, "gate", &FollowedLine { seq: 1, text: text.to_owned() });
        let frame = String::from_utf8(frames).unwrap();
        let (length, message) = frame.split_once(' ').unwrap();
        assert_eq!(length.parse::<usize>().unwrap(), message.len());
        let process = std::process::id();
        let expected = format!("<110>1 2026-11-18T04:15:00.123456Z gate tsugi {process} denied - \u{feff}{text}");
        assert_eq!(message, expected);
    }

    #[test]
    fn only_tls_is_spoken() {
        assert!(SyslogSink::new("udp://host:514", None).is_err());
        assert!(SyslogSink::new("tls://host", None).is_ok_and(|sink| sink.port == 6514));
    }
}
