//! Nobody reads the log, or there are no files left: W-04, W-07.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

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

/// Runs a program with few files, and finds out where it listens.
fn with_few_files(world: &World, program: &str, role: Option<&str>) -> (Child, String) {
    let mut limited = shell(&world.command(&[]), &format!("ulimit -n 48; exec {program}"));
    limited.envs(role.map(|role| (CARELESS, role)));
    let mut child = limited.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut talk = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("listening on ") {
        line.clear();
        assert!(talk.read_line(&mut line).unwrap() > 0, "it does not listen");
    }
    std::thread::spawn(move || talk.lines().count());
    (child, line.trim_start_matches("listening on http://").trim().to_owned())
}

/// Whether a server answers one more connection.
fn works(host: &str) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(host)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

/// The row: without files a server waits, at rest, and goes on when there are some again.
fn outlives_a_lack_of_files(child: &mut Child, host: &str) -> Result<(), String> {
    assert!(works(host), "the legitimate request works");
    let open: Vec<TcpStream> = (0..100).filter_map(|_| TcpStream::connect(host).ok()).collect();
    assert!(!works(host), "there is no file left for one more connection");
    let (before, start) = (cpu_ticks(child.id()), Instant::now());
    while start.elapsed() < Duration::from_secs(2) {
        if child.try_wait().unwrap().is_some() {
            return Err("it exits".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // A hundred ticks are a second: who waits at rest uses next to none of the two.
    let used = cpu_ticks(child.id()) - before;
    if used > 20 {
        return Err(format!("it burns the machine: {used} ticks"));
    }
    drop(open);
    until(|| works(host), || "it does not recover".to_owned());
    Ok(())
}

/// The processor time of a process so far.
fn cpu_ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn w04_a_gateway_without_files_left_waits_for_some_and_goes_on() {
    let world = World::new();
    let (mut child, host) = with_few_files(&world, &format!("{TSUGI} serve --listen 127.0.0.1:0"), None);
    outlives_a_lack_of_files(&mut child, &host).unwrap();
    tsugi_testkit::process::send(child.id(), Signal::TERM);
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < LONG, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    world.assert_empty();
}

/// Says in the environment of a control what it does wrong.
const CARELESS: &str = "TSUGI_TEST_CARELESS";

/// This test run in a process of its own is the control.
#[test]
fn w04_the_control_without_files_is_gone_or_never_rests() {
    if let Ok(role) = std::env::var(CARELESS) {
        return accept_carelessly(&role);
    }
    let this = std::env::current_exe().unwrap();
    let name = "faults::log::w04_the_control_without_files_is_gone_or_never_rests";
    let program = format!("{} --exact {name} --nocapture", this.display());
    for (role, found) in [("exits", "it exits"), ("spins", "it burns the machine")] {
        let world = World::new();
        let (mut child, host) = with_few_files(&world, &program, Some(role));
        let verdict = outlives_a_lack_of_files(&mut child, &host);
        let _ = child.kill();
        child.wait().unwrap();
        assert!(verdict.as_ref().is_err_and(|fault| fault.contains(found)), "{role}: {verdict:?}");
    }
}

/// A server that takes every failure to accept for the end, or for nothing.
#[expect(clippy::print_stderr, reason = "it says where it listens as the gateway does")]
fn accept_carelessly(role: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    eprintln!("listening on http://{}", listener.local_addr().unwrap());
    loop {
        match listener.accept() {
            Ok((mut stream, _)) => drop(std::thread::spawn(move || {
                if stream.read(&mut [0; 1024]).is_ok_and(|read| read > 0) {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                }
            })),
            Err(_) if role == "spins" => {}
            Err(error) => panic!("{error}"),
        }
    }
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
