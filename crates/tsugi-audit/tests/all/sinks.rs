//! Lines reach their sinks once they can, in order, across restarts and new files.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tsugi_audit::follow::{FollowedLine, LineFollower};
use tsugi_audit::sink::{LineSink, OtlpSink, PostgresSink, SinkError, SinkReply, SinkTask, SyslogSink};
use tsugi_audit::verify::{ChainVerifier, VerifyOptions};

use crate::world::{AuditWorld, key, write_call};

/// Waits for something that another task does.
async fn until(mut is_there: impl FnMut() -> bool) {
    let waiting = async {
        while !is_there() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("it never happened");
}

/// The verdict on lines that a sink has.
fn exit_code(lines: &[String]) -> u8 {
    let text = lines.join("\n") + "\n";
    let mut verifier = ChainVerifier::new(VerifyOptions { key: Some(key().public()), ..VerifyOptions::default() });
    match verifier.read("sink", &mut text.as_bytes()).unwrap() {
        Some(broken) => panic!("{broken:?}"),
        None => verifier.finish().exit_code(),
    }
}

#[test]
fn a_follower_reads_every_line_once_across_new_files() {
    let world = AuditWorld::new();
    let writer = world.open_with(|config| config.rotate_bytes = 3000);
    let mut follower = LineFollower::new(world.files(), 0);
    let mut read = Vec::new();
    let mut calls = 0;
    while world.files().files().unwrap().len() < 4 {
        write_call(&writer, "read");
        calls += 1;
        if calls % 3 == 0 {
            read.extend(follower.next_batch(5, 1 << 20).unwrap());
        }
    }
    drop(writer);
    loop {
        let batch = follower.next_batch(7, 1 << 20).unwrap();
        if batch.is_empty() {
            break;
        }
        read.extend(batch);
    }
    let seqs: Vec<u64> = read.iter().map(|line| line.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(exit_code(&read.into_iter().map(|line| line.text).collect::<Vec<_>>()), 0);
    // From the middle, as after a restart.
    let mut later = LineFollower::new(world.files(), 10);
    assert_eq!(later.next_batch(1, 1).unwrap()[0].seq, 11);
}

/// A sink that fails as often as it is told to.
#[derive(Clone, Default)]
struct RecordingSink {
    lines: Arc<Mutex<Vec<String>>>,
    failures: Arc<Mutex<usize>>,
}

impl LineSink for RecordingSink {
    fn send<'a>(&'a mut self, lines: &'a [FollowedLine]) -> SinkReply<'a> {
        Box::pin(async move {
            let mut failures = self.failures.lock();
            if *failures > 0 {
                *failures -= 1;
                let retry_after = Some(Duration::from_millis(1));
                return Err(SinkError::Unavailable { reason: "not now".to_owned(), retry_after });
            }
            self.lines.lock().extend(lines.iter().map(|line| line.text.clone()));
            Ok(())
        })
    }
}

#[tokio::test]
async fn a_sink_goes_on_where_it_was_and_gets_the_last_checkpoint() {
    let world = AuditWorld::new();
    let sink = RecordingSink::default();
    *sink.failures.lock() = 3;
    for _ in 0..2 {
        let writer = world.open();
        let task = SinkTask::spawn(world.files(), "test".to_owned(), sink.clone());
        write_call(&writer, "read");
        drop(writer);
        until(|| *sink.failures.lock() == 0).await;
        task.stop().await;
    }
    let lines = sink.lines.lock().clone();
    assert_eq!(lines, world.lines(), "each line once, in order");
    assert_eq!(exit_code(&lines), 0);
}

/// The numbers of the metrics: nothing that a sink has not got looks as if it had.
#[tokio::test]
async fn a_sink_reports_what_it_has_not_taken_and_what_it_never_will() {
    /// Answers each batch with the next of these; the channel's end is a sink that is away.
    struct ScriptedSink(tokio::sync::mpsc::Receiver<Result<(), SinkError>>);
    impl LineSink for ScriptedSink {
        fn send<'a>(&'a mut self, _: &'a [FollowedLine]) -> SinkReply<'a> {
            Box::pin(async move { self.0.recv().await.unwrap_or_else(|| Err(SinkError::Rejected("over".to_owned()))) })
        }
    }
    let world = AuditWorld::new();
    let writer = world.open();
    let (answers, script) = tokio::sync::mpsc::channel(1);
    let task = SinkTask::spawn(world.files(), "test".to_owned(), ScriptedSink(script));
    let progress = task.progress().clone();
    let away = SinkError::Unavailable { reason: "away".to_owned(), retry_after: Some(Duration::from_millis(1)) };
    answers.send(Err(away)).await.unwrap();
    until(|| !progress.is_up()).await;
    assert_eq!((progress.position(), progress.lost()), (0, 0));
    answers.send(Ok(())).await.unwrap();
    until(|| progress.is_up()).await;
    let taken = progress.position();
    assert!(taken > 0 && taken <= writer.status().head.seq);
    write_call(&writer, "read");
    answers.send(Err(SinkError::Rejected("never".to_owned()))).await.unwrap();
    until(|| progress.lost() > 0).await;
    assert_eq!(progress.position() - taken, progress.lost());
    drop((answers, writer));
    task.stop().await;
}

/// A sink that never answers costs the writer nothing: its calls are over before the sink is.
#[tokio::test]
async fn a_sink_that_hangs_does_not_delay_calls() {
    struct HangingSink;
    impl LineSink for HangingSink {
        fn send<'a>(&'a mut self, _: &'a [FollowedLine]) -> SinkReply<'a> {
            Box::pin(std::future::pending())
        }
    }
    let world = AuditWorld::new();
    let writer = world.open();
    let _task = SinkTask::spawn(world.files(), "test".to_owned(), HangingSink);
    for _ in 0..1000 {
        write_call(&writer, "read");
    }
    drop(writer);
    assert_eq!(world.verdict().exit_code(), 0);
}

/// Reads frames of RFC 5425 as a collector does.
fn read_frames(mut bytes: &[u8]) -> Vec<String> {
    let mut messages = Vec::new();
    while let Some(space) = bytes.iter().position(|&byte| byte == b' ') {
        let length: usize = std::str::from_utf8(&bytes[..space]).unwrap().parse().unwrap();
        let Some(message) = bytes.get(space + 1..space + 1 + length) else { break };
        messages.push(String::from_utf8(message.to_vec()).unwrap());
        bytes = &bytes[space + 1 + length..];
    }
    messages
}

#[tokio::test]
async fn syslog_gets_every_line_over_tls_and_an_unknown_certificate_gets_none() {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let server = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certified.cert.der().clone()],
            rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap(),
        )
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("tls://localhost:{}", listener.local_addr().unwrap().port());
    let received: Arc<Mutex<Vec<u8>>> = Arc::default();
    let refused: Arc<Mutex<usize>> = Arc::default();
    let (collected, failed) = (received.clone(), refused.clone());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            match acceptor.accept(socket).await {
                Ok(mut stream) => {
                    let collected = collected.clone();
                    tokio::spawn(async move {
                        let mut buffer = [0; 4096];
                        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                            collected.lock().extend_from_slice(&buffer[..count]);
                        }
                    });
                }
                Err(_) => *failed.lock() += 1,
            }
        }
    });
    let world = AuditWorld::with_calls(3);
    // The control: a client that does not know the certificate sends nothing.
    let stranger = SinkTask::spawn(world.files(), "stranger".to_owned(), SyslogSink::new(&url, None).unwrap());
    until(|| *refused.lock() > 0).await;
    stranger.stop().await;
    assert!(received.lock().is_empty());
    let ca = world.folder.path().join("ca.pem");
    std::fs::write(&ca, certified.cert.pem()).unwrap();
    let task = SinkTask::spawn(world.files(), "syslog".to_owned(), SyslogSink::new(&url, Some(&ca)).unwrap());
    until(|| read_frames(&received.lock()).len() == world.lines().len()).await;
    task.stop().await;
    let messages = read_frames(&received.lock());
    let bodies: Vec<String> =
        messages.iter().map(|message| message.split_once('\u{feff}').unwrap().1.to_owned()).collect();
    assert_eq!(bodies, world.lines());
    assert!(messages.iter().all(|message| message.starts_with("<110>1 ")), "{messages:?}");
    assert_eq!(exit_code(&bodies), 0);
}

#[tokio::test]
async fn an_otlp_collector_gets_every_line_after_it_was_busy() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let posts: Arc<Mutex<Vec<(String, serde_json::Value)>>> = Arc::default();
    let collected = posts.clone();
    tokio::spawn(async move {
        for number in 0.. {
            let Ok((mut socket, _)) = listener.accept().await else { return };
            let mut text = Vec::new();
            let body = loop {
                let mut buffer = [0; 4096];
                let count = socket.read(&mut buffer).await.unwrap();
                text.extend_from_slice(&buffer[..count]);
                let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
                let head = String::from_utf8_lossy(&text[..end]).to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                if text.len() >= end + 4 + length.parse::<usize>().unwrap() {
                    break (head, serde_json::from_slice(&text[end + 4..]).unwrap());
                }
            };
            let status = if number == 0 { "503 Service Unavailable\r\nRetry-After: 0" } else { "200 OK" };
            if number > 0 {
                collected.lock().push(body);
            }
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}");
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let world = AuditWorld::with_calls(2);
    let headers = [("Authorization".to_owned(), "Bearer canary".to_owned())];
    let sink = OtlpSink::new(&url, &headers, None).unwrap();
    let task = SinkTask::spawn(world.files(), "otlp".to_owned(), sink);
    until(|| !posts.lock().is_empty()).await;
    task.stop().await;
    let (head, body) = posts.lock()[0].clone();
    assert!(head.starts_with("post /v1/logs ") && head.contains("content-type: application/json"), "{head}");
    assert!(head.contains("authorization: bearer canary"));
    let records = body["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().unwrap();
    let bodies: Vec<String> =
        records.iter().map(|record| record["body"]["stringValue"].as_str().unwrap().to_owned()).collect();
    assert_eq!(bodies, world.lines());
    assert_eq!(exit_code(&bodies), 0);
}

#[tokio::test]
async fn a_postgres_table_has_the_same_chain_and_each_line_once() {
    let Ok(url) = std::env::var("TSUGI_TEST_POSTGRES") else {
        eprintln!("TSUGI_TEST_POSTGRES is not set: nothing was tested");
        return;
    };
    // A key of its own, so that no other run shares the chain.
    let folder = tempfile::tempdir().unwrap();
    let own = tsugi_audit::checkpoint::AuditKey::load_or_create(&folder.path().join("key")).unwrap();
    let public = own.public();
    let world = AuditWorld::new();
    let writer = tsugi_audit::writer::AuditWriter::open(world.config(), own).unwrap();
    write_call(&writer, "read");
    drop(writer);
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    for name in ["first", "again"] {
        let sink = PostgresSink::new(&url, None, &public).unwrap();
        let task = SinkTask::spawn(world.files(), name.to_owned(), sink);
        let position = world.folder.path().join(format!("audit.jsonl.{name}.position"));
        until(|| position.exists()).await;
        task.stop().await;
    }
    let query = "select line from tsugi_audit where chain = $1 order by seq";
    let rows = client.query(query, &[&public.to_string()]).await.unwrap();
    let lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(lines, world.lines());
    client.execute("delete from tsugi_audit where chain = $1", &[&public.to_string()]).await.unwrap();
}
