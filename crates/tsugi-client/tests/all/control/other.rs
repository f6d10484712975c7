//! Rows that the usual control passes, since it is too simple to fail them: each has a careless client of its own.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use tsugi_protocol::answer::{Answer, Call, Reply};
use tsugi_protocol::mcp::Era;
use tsugi_testkit::careless::Careless;
use tsugi_testkit::fake::{Step, reply};
use tsugi_testkit::script::{Action, Rule, Script};
use tsugi_testkit::scripted::{HttpServer, Scripted};

use super::{PATIENCE, found};
use crate::faults_http::{fake, response, said};
use crate::subject::{Subject, Verdict, ensure};
use crate::world::{Bench, LIMIT, call};

/// F-04: a server dies after its `initialize` result. After at most one call that failed it works.
async fn comes_back(subject: &Subject) -> Verdict {
    subject.outcome(call("echo", json!({}))).await?;
    subject.works().await
}

#[tokio::test]
async fn f04_the_control_never_starts_a_server_again() {
    let script = Script::legacy().rule(Rule::on("initialize").launch(1).after().act(Action::Exit(9)));
    let bench = Bench::new(script.clone());
    assert_eq!(comes_back(&Subject::new(bench.server.clone(), LIMIT)).await, Ok(()));
    bench.finish().await;
    let server = Scripted::new(script);
    let control = Careless::scripted(&server).giving_up();
    found(comes_back(&Subject::new(control, PATIENCE)).await, "gave");
}

/// Starts a server for whoever calls.
struct OneForEach(Scripted);

impl Answer for OneForEach {
    fn answer(&self, call: Call) -> Reply {
        Careless::scripted(&self.0).answer(call)
    }
}

/// F-08: many call a server that is not running. It is started once.
async fn starts_once(subject: &Subject, launches: impl Fn() -> u64) -> Verdict {
    subject.crowd(8, &call("about", json!({}))).await?;
    ensure(launches() == 1, || format!("{} starts for 8 callers", launches()))
}

#[tokio::test]
async fn f08_the_control_starts_a_server_for_each_of_its_callers() {
    let bench = Bench::with(Script::legacy(), |mut config| {
        config.start = tsugi_client::StartPolicy::Lazy;
        config
    });
    let journal = bench.peer.journal();
    assert_eq!(starts_once(&Subject::new(bench.server.clone(), LIMIT), || journal.launches()).await, Ok(()));
    bench.finish().await;
    let server = Scripted::new(Script::legacy());
    let journal = server.journal();
    let control = OneForEach(server);
    found(starts_once(&Subject::new(control, LIMIT), || journal.launches()).await, "8 starts for 8 callers");
}

/// F-17: the server tells much before it answers.
async fn bears_a_flood(subject: &Subject) -> Verdict {
    subject.works().await?;
    subject.outcome(call("count", json!({}))).await?;
    subject.works().await
}

#[tokio::test]
async fn f17_the_control_keeps_notifications_until_it_is_full_and_hangs() {
    let script = Script::legacy().rule(Rule::on_tool("count").act(Action::Notifications(1000)));
    let bench = Bench::new(script.clone());
    assert_eq!(bears_a_flood(&Subject::new(bench.server.clone(), LIMIT)).await, Ok(()));
    bench.finish().await;
    let server = Scripted::new(script);
    let control = Careless::scripted(&server).queueing();
    found(bears_a_flood(&Subject::new(control, PATIENCE)).await, "count hangs");
}

/// A client that uses a connection again without a look at whether it is still open.
struct Reusing {
    host: String,
    kept: Option<TcpStream>,
}

impl Reusing {
    fn call(&mut self) -> std::io::Result<()> {
        let mut stream = match self.kept.take() {
            Some(kept) => kept,
            None => TcpStream::connect(&self.host)?,
        };
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{}}}"#;
        let head = format!("POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n", self.host);
        stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
        let mut read = Vec::new();
        while !read.windows(11).any(|part| part == b"\"text\":\"1\"}") {
            let mut part = [0; 1024];
            let count = stream.read(&mut part)?;
            if count == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            read.extend_from_slice(&part[..count]);
        }
        self.kept = Some(stream);
        Ok(())
    }
}

/// The row of tsugi allows less than 80 of 200: `h13_a_kept_connection_that_closes_when_it_is_used_costs_no_call_and_doubles_none`.
#[test]
fn h13_the_control_fails_every_second_call_over_connections_that_were_closed() {
    let closing = fake(Era::Modern, |request| {
        let mut steps = reply::json(&response(request, &said(Era::Modern, "1")));
        steps.push(Step::Close);
        steps
    });
    let url = closing.url();
    let host = url.trim_start_matches("http://").split('/').next().unwrap().to_owned();
    let mut control = Reusing { host, kept: None };
    let unlucky = (0..200).filter(|_| control.call().is_err()).count();
    assert!((80..200).contains(&unlucky), "{unlucky} of 200 calls met a closed connection");
}

/// H-16: of these servers some are dead. How many of the others serve?
fn serving<E>(answered: Result<Vec<serde_json::Value>, E>) -> usize {
    answered.map_or(0, |answers| answers.len())
}

/// A client that connects to all of its servers first, and to none when one of them is not there.
#[test]
fn h16_the_control_serves_nobody_when_one_of_its_servers_is_dead() {
    let living: Vec<HttpServer> = (0..3).map(|_| HttpServer::start(&Script::modern())).collect();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = format!("http://{}/mcp", gone.local_addr().unwrap());
    drop(gone);
    let connect = |url: &String| Careless::http(url).modern().call("echo", json!({"message": "here"}));
    let urls: Vec<String> = living.iter().map(HttpServer::url).collect();
    assert_eq!(serving(urls.iter().map(connect).collect()), 3, "they serve when all are there");
    assert_eq!(serving(urls.iter().chain([&dead]).map(connect).collect()), 0);
}
