//! Which port a process listens on: the servers under test do not say which one they were given.

use std::time::Duration;

use tsugi_testkit::wait;

/// The port, as soon as there is one.
pub(super) fn of(pid: u32) -> u16 {
    let mut found = None;
    wait::until_blocking(Duration::from_secs(60), || {
        found = listening(pid);
        found.is_some()
    });
    found.unwrap_or_else(|| panic!("process {pid} does not listen"))
}

fn listening(pid: u32) -> Option<u16> {
    let sockets = sockets(pid);
    ["tcp", "tcp6"].iter().find_map(|table| {
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok()?;
        table.lines().find_map(|row| port_in(row, &sockets))
    })
}

/// The open sockets of a process, as `/proc` numbers them.
fn sockets(pid: u32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok()?.to_str().map(str::to_owned));
    names.filter_map(|name| Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect()
}

/// The port of a row of `/proc/net/tcp` that is one of these sockets and listens.
fn port_in(row: &str, sockets: &[String]) -> Option<u16> {
    const LISTENS: &str = "0A";
    let fields: Vec<&str> = row.split_whitespace().collect();
    let (address, state, socket) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    let is_meant = *state == LISTENS && sockets.iter().any(|known| known == socket);
    let port = is_meant.then(|| address.rsplit_once(':')).flatten()?.1;
    u16::from_str_radix(port, 16).ok()
}
