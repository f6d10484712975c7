//! Children that misbehave: this test binary itself, run again with `--hostile ROLE`.
//!
//! A function run before `main` turns the binary into the role, so that no second binary has to be found,
//! and the role has a single thread and may fork.
#![allow(unsafe_code, reason = "fork and signal dispositions, which misbehaving children need, have no safe form")]

mod attack;
mod supervisor;

use std::{
    io::{Read, Write},
    process::exit,
};

/// The first argument that makes this binary a hostile child.
pub(crate) const FLAG: &str = "--hostile";

#[used]
#[unsafe(link_section = ".init_array")]
static HOOK: extern "C" fn() = hook;

extern "C" fn hook() {
    // Supervisors among the roles need guardians too, and no order is promised between two of these functions.
    tsugi_process::guardian_main();
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(FLAG) {
        let role = arguments.next().unwrap_or_default();
        play(&role, &arguments.collect::<Vec<_>>());
        exit(0);
    }
}

fn play(role: &str, arguments: &[String]) {
    match role {
        "echo" => echo(),
        "exit" => exit(number(arguments)),
        "signal" => raise(number(arguments)),
        "stubborn" => stubborn(),
        "frozen" => frozen(),
        "family" => family(),
        "daemon" => daemon(),
        "launcher" => launcher(),
        "flood" => flood(number(arguments)),
        "speak" => speak(arguments),
        "environment" => environment(),
        "files" => files(),
        "attack" => attack::run(arguments),
        "supervise" => supervisor::guarded(arguments),
        "starved" => supervisor::starved(arguments),
        "careless" => supervisor::careless(arguments),
        _ => panic!("no such role: {role}"),
    }
}

fn number(arguments: &[String]) -> i32 {
    arguments[0].parse().unwrap()
}

fn ready() {
    std::io::stdout().write_all(b"ready\n").unwrap();
    std::io::stdout().flush().unwrap();
}

/// A good child: gives back what it gets and ends with its input.
fn echo() {
    ready();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = std::io::stdin().read(&mut buffer) {
        std::io::stdout().write_all(&buffer[..count]).unwrap();
        std::io::stdout().flush().unwrap();
    }
}

fn raise(signal: i32) {
    // SAFETY: sends a signal to ourselves.
    unsafe { libc::raise(signal) };
    sleep_forever();
}

fn sleep_forever() -> ! {
    loop {
        std::thread::park();
    }
}

fn ignore_sigterm() {
    // SAFETY: ignoring a signal is always allowed.
    unsafe {
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        libc::signal(libc::SIGINT, libc::SIG_IGN);
    }
}

/// Runs `child` in a new process; gives its id.
fn fork(child: impl FnOnce()) -> i32 {
    // SAFETY: roles have one thread.
    match unsafe { libc::fork() } {
        0 => {
            child();
            exit(0)
        }
        pid => pid,
    }
}

/// Ignores the end of input and SIGTERM.
fn stubborn() {
    ignore_sigterm();
    ready();
    sleep_forever();
}

/// Stops itself, so that it hears nothing.
fn frozen() {
    ignore_sigterm();
    ready();
    // SAFETY: sends a signal to ourselves.
    unsafe { libc::raise(libc::SIGSTOP) };
    sleep_forever();
}

/// Has a child and a grandchild, both stubborn.
fn family() {
    fork(|| {
        ignore_sigterm();
        fork(stubborn);
        sleep_forever();
    });
    sleep_until_input_ends();
}

/// Forks twice and leaves its session in between, as daemons do.
fn daemon() {
    detach();
    sleep_until_input_ends();
}

fn detach() {
    let middle = fork(|| {
        // SAFETY: a new session for this process.
        unsafe { libc::setsid() };
        fork(stubborn);
    });
    // SAFETY: waits for a child of ours, wanting no status.
    unsafe { libc::waitpid(middle, std::ptr::null_mut(), 0) };
}

/// Starts the real server and ends before it.
fn launcher() {
    fork(stubborn);
    detach();
    // The test knows that all stand when two have said so; this one ends only on its word.
    let mut word = [0; 1];
    let _ = std::io::stdin().read(&mut word);
}

fn sleep_until_input_ends() {
    let mut rest = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut rest);
}

/// Writes megabytes to stderr that are not UTF-8, then a last line, and fails.
fn flood(megabytes: i32) {
    let mut junk = vec![0xfe; 1024 * 1024];
    junk[1024 * 1024 - 1] = b'\n';
    for _ in 0..megabytes {
        std::io::stderr().write_all(&junk).unwrap();
    }
    std::io::stderr().write_all(b"that was all\n").unwrap();
    exit(3);
}

/// Says its arguments on stderr, one per line, when it hears something on stdin.
fn speak(lines: &[String]) {
    ready();
    let _ = std::io::stdin().read(&mut [0; 1]);
    for line in lines {
        eprintln!("{line}");
    }
    sleep_until_input_ends();
}

fn environment() {
    for (name, value) in std::env::vars() {
        println!("{name}={value}");
    }
}

/// Lists its open files: number, blank, target.
fn files() {
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        // The file by which the list itself is read is gone by now.
        if !target.starts_with("/proc") {
            println!("{} {}", entry.file_name().to_string_lossy(), target.display());
        }
    }
}
