//! What a confined child tries; whether it got through is judged by the test, from outside.
#![allow(unsafe_code, reason = "forking and raw system calls are what an attacker does")]

use std::{
    io::{Read, Write},
    net::{TcpStream, UdpSocket},
};

/// Runs one attack and says that it is over; its argument names it, a variable aims it.
pub(crate) fn run(arguments: &[String]) {
    let kind = arguments.first().expect("an attack is needed");
    let target = &std::env::var("TARGET").expect("a target is needed");
    let result = match kind.as_str() {
        "read" => std::fs::read_to_string(target).map(say),
        "write" => std::fs::write(target, "owned"),
        "mode" => std::fs::set_permissions(target, std::os::unix::fs::PermissionsExt::from_mode(0o777)),
        "temporary" => use_temporary(),
        "tcp" => TcpStream::connect(target).map(drop),
        "udp" => UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"owned", target)).map(drop),
        "signal" => check(unsafe { libc::kill(target.parse().unwrap(), libc::SIGKILL) }),
        "ptrace" => check(unsafe { libc::ptrace(libc::PTRACE_ATTACH, target.parse::<i32>().unwrap(), 0, 0) } as i32),
        "limit" => change_limit(target.parse().unwrap()),
        "mount" => check(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) }),
        "environment" => {
            std::fs::read(format!("/proc/{target}/environ")).map(|bytes| say(String::from_utf8_lossy(&bytes).into()))
        }
        "forks" => fork_without_end(),
        "memory" => allocate_without_end(),
        "loopback" => talk_to_itself(),
        "proxy" => ask_proxy(target),
        _ => panic!("no such attack: {kind}"),
    };
    println!("{}", result.map_or_else(|error| format!("refused: {error}"), |()| "done".to_owned()));
}

fn say(text: String) {
    println!("{text}");
    std::io::stdout().flush().unwrap();
}

fn check(result: i32) -> std::io::Result<()> {
    if result == -1 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Says where it may keep temporary files, after doing so.
fn use_temporary() -> std::io::Result<()> {
    let folder = std::env::temp_dir();
    std::fs::write(folder.join("temporary"), "mine")?;
    say(format!("{} holds {}", folder.display(), std::fs::read_to_string(folder.join("temporary"))?));
    Ok(())
}

/// Lowers how many files another process may open.
fn change_limit(pid: i32) -> std::io::Result<()> {
    let limit = libc::rlimit { rlim_cur: 3, rlim_max: 3 };
    // SAFETY: the new limit is a local value; the old one is not wanted.
    check(unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut()) })
}

/// Forks as fast as it can; every second process leaves the group, so that a signal to the group is not enough.
///
/// All of them share four hundred tokens and end by themselves after ten seconds:
/// a test of a fork bomb must not be one when the limit under test is broken.
fn fork_without_end() -> std::io::Result<()> {
    let (tokens, mut supply) = std::io::pipe()?;
    supply.write_all(&[0; 400])?;
    drop(supply);
    while matches!((&tokens).read(&mut [0]), Ok(1)) {
        // SAFETY: plain system calls of a process with one thread.
        unsafe {
            libc::alarm(10);
            if libc::fork() == 0 && libc::getpid() % 2 == 0 {
                libc::setsid();
            }
        }
    }
    // SAFETY: as above; a fresh process has no alarm yet.
    unsafe { libc::alarm(10) };
    super::sleep_forever()
}

/// In pieces that are used at once.
fn allocate_without_end() -> std::io::Result<()> {
    let mut held: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut piece = Vec::new();
        if piece.try_reserve_exact(4 << 20).is_err() {
            continue;
        }
        piece.resize(4 << 20, 1);
        held.push(piece);
    }
}

/// Sends a head to the proxy that the environment names, and says what comes back.
fn ask_proxy(head: &str) -> std::io::Result<()> {
    let proxy = std::env::var("HTTP_PROXY").map_err(std::io::Error::other)?;
    let mut stream = TcpStream::connect(proxy.trim_start_matches("http://"))?;
    stream.write_all(format!("{}\r\nConnection: close\r\n\r\n", head).as_bytes())?;
    // The first request of a tunnel goes right behind its head.
    stream.write_all(b"GET /inside HTTP/1.1\r\nHost: inside\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    say(answer);
    Ok(())
}

fn talk_to_itself() -> std::io::Result<()> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    TcpStream::connect(listener.local_addr()?)?;
    listener.accept().map(drop)
}
