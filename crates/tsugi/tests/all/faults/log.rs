//! Nobody reads the log, or there are no files left: W-04, W-07.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use crate::world::{LONG, TSUGI, World, modern_call, modern_headers, until};

const TOOL: &str = "demo__echo";

/// Each request writes a line of about 100 bytes, and the pipe holds 64 KiB.
const ROUNDS: usize = 1500;

/// The first round in which the answer is not what was asked for.
fn first_lost(mut ask: impl FnMut(&str) -> Option<String>) -> Option<usize> {
    (0..ROUNDS).find(|round| {
        let mark = format!("mark-{round}-");
        !ask(&mark).is_some_and(|answer| answer.contains(&mark))
    })
}

/// A server that writes its log as it goes, with nobody to read it.
#[test]
fn w07_the_control_that_writes_its_log_itself_answers_no_more_when_nobody_reads_it() {
    let world = World::new();
    let script = "while read -r line; do printf '%0100d\\n' 0 >&2; echo \"$line\"; done";
    let mut careless = shell(&world.command(&[]), script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, output) = (careless.stdin.take().unwrap(), careless.stdout.take().unwrap());
    let (sender, answers) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    let lost = first_lost(|mark| {
        writeln!(input, "{mark}").unwrap();
        answers.recv_timeout(Duration::from_secs(3)).ok()
    });
    careless.kill().unwrap();
    careless.wait().unwrap();
    assert!(lost.is_some_and(|round| round > 300), "it worked until the pipe was full: {lost:?}");
}

#[test]
fn w07_a_log_that_nobody_reads_is_lost_and_no_call_is() {
    let world = World::new();
    let (mut serving, unread) = world.serve_unread(&["--listen", "127.0.0.1:0", "-v"]);
    serving.connected("demo");
    let lost = first_lost(|mark| {
        let body = modern_call(TOOL, serde_json::json!({"message": mark}));
        Some(serving.ask("POST", "/mcp", &modern_headers(TOOL), &body).1)
    });
    assert_eq!(lost, None);
    serving.signal(Signal::TERM);
    assert_eq!(serving.exit_code(), Some(0), "it still stops when it is told to");
    // The control: the log was on, and its pipe was full.
    let mut written = Vec::new();
    unread.into_inner().read_to_end(&mut written).unwrap();
    assert!(written.len() > 60_000, "only {} bytes were written: the pipe was never full", written.len());
    world.assert_empty();
}

#[test]
fn w04_a_gateway_without_files_left_waits_for_some_and_goes_on() {
    let world = World::new();
    let script = format!("ulimit -n 48; exec {TSUGI} serve --listen 127.0.0.1:0");
    let mut limited = shell(&world.command(&[]), &script);
    let mut child = limited.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut talk = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("listening on ") {
        line.clear();
        assert!(talk.read_line(&mut line).unwrap() > 0, "it does not listen");
    }
    std::thread::spawn(move || talk.lines().count());
    let host = line.trim_start_matches("listening on http://").trim().to_owned();
    let works = || {
        let mut stream = TcpStream::connect(&host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).is_ok() && answer.starts_with("HTTP/1.1 200")
    };
    assert!(works(), "the legitimate request works");
    let open: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(&host).unwrap()).collect();
    assert!(!works(), "the control: there is no file left for one more connection");
    assert!(child.try_wait().unwrap().is_none(), "it does not exit");
    drop(open);
    until(works, || "it does not recover".to_owned());
    tsugi_testkit::process::send(child.id(), Signal::TERM);
    let start = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < LONG, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    world.assert_empty();
}

/// A shell with the environment of a command.
#[expect(clippy::disallowed_methods, reason = "a shell sets the limit that the command is tested under")]
pub(super) fn shell(like: &std::process::Command, script: &str) -> std::process::Command {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script]).env_clear();
    shell.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = like.get_current_dir() {
        shell.current_dir(folder);
    }
    shell
}
