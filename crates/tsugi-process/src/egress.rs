//! The way out of a child that may reach listed hosts alone: a listening socket inside its network, served by us.
//!
//! The child's network namespace has a loopback device and nothing else. Its first process opens the socket there and
//! sends it to us, and a proxy of ours accepts on it from outside. No route, no address and no name server exist in the
//! namespace, so a child that ignores the proxy reaches its own processes alone.

use std::{ffi::OsString, fmt, io};

#[cfg(target_os = "linux")]
use std::{
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    net::{Ipv4Addr, TcpListener},
    os::fd::{AsFd, OwnedFd},
};

#[cfg(target_os = "linux")]
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, recvmsg, sendmsg, socketpair,
};
use tsugi_outbound::{
    EgressList, OutboundGuard,
    egress::{EgressProxy, RefusalObserver},
};

#[cfg(target_os = "linux")]
use crate::guardian::control::files_of;

/// The port of the proxy. The namespace is new, so that no other program has it.
const PROXY_PORT: u16 = 3128;

/// Variables that name a proxy, in the spellings that curl, Python, Go, Node and others read.
const PROXY_VARIABLES: [&str; 6] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
/// Variables that name hosts to reach without the proxy.
const DIRECT_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];
/// Makes Node heed the variables above.
const NODE_VARIABLE: &str = "NODE_USE_ENV_PROXY";

/// What a child with a list of hosts may find behind their names, and who learns of refusals.
#[derive(Clone, Default)]
pub struct EgressAccess {
    /// The name of the server in logs and events.
    pub server: String,
    /// Checks the addresses behind listed names.
    pub guard: OutboundGuard,
    pub observer: Option<RefusalObserver>,
}

impl EgressAccess {
    /// Public addresses only.
    pub(crate) fn of(server: &str) -> Self {
        EgressAccess { server: server.to_owned(), ..EgressAccess::default() }
    }
}

impl PartialEq for EgressAccess {
    /// The observer does not count: it decides nothing.
    fn eq(&self, other: &Self) -> bool {
        (&self.server, &self.guard) == (&other.server, &other.guard)
    }
}

impl fmt::Debug for EgressAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EgressAccess").field("server", &self.server).field("guard", &self.guard).finish()
    }
}

/// The child's environment, with its own proxy in place of ours.
pub(crate) fn variables(env: &[(OsString, OsString)], list: &EgressList) -> Vec<(OsString, OsString)> {
    let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
    // Servers of the child's own are reached directly, unless the list means this machine's loopback.
    let direct = if list.has_loopback() { "" } else { "localhost,127.0.0.1,::1" };
    let own = PROXY_VARIABLES.map(|name| (name, proxy.as_str()));
    let own = own.into_iter().chain(DIRECT_VARIABLES.map(|name| (name, direct))).chain([(NODE_VARIABLE, "1")]);
    let own: Vec<(OsString, OsString)> = own.map(|(name, value)| (name.into(), value.into())).collect();
    let others = env.iter().filter(|(name, _)| own.iter().all(|(other, _)| other != name)).cloned();
    others.chain(own.iter().cloned()).collect()
}

/// Opens the listening socket in the network of this process, and sends it to the supervisor.
#[cfg(target_os = "linux")]
pub(crate) fn open_way_out(supervisor: OwnedFd) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT))?;
    let files = [listener.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // One byte, since files travel with data only.
    sendmsg(&supervisor, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A way out that is asked for and not open yet.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct WayOut {
    list: EgressList,
    socket: OwnedFd,
}

#[cfg(target_os = "linux")]
impl WayOut {
    /// Prepares to receive the socket; the second part goes to the child's first process.
    pub(crate) fn prepare(list: EgressList) -> io::Result<(Self, OwnedFd)> {
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        Ok((WayOut { list, socket }, theirs))
    }

    /// Serves the socket, which has been sent, until the task is dropped.
    pub(crate) fn serve(self, access: EgressAccess) -> io::Result<EgressTask> {
        let listener = self.receive()?;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let proxy = EgressProxy::new(&access.server, self.list, access.guard);
        let proxy = access.observer.into_iter().fold(proxy, EgressProxy::with_observer);
        Ok(EgressTask(tokio::spawn(proxy.serve(listener))))
    }

    fn receive(&self) -> io::Result<TcpListener> {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        recvmsg(&self.socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
        let file = ancillary.drain().flat_map(files_of).next();
        file.map(TcpListener::from).ok_or(io::ErrorKind::UnexpectedEof.into())
    }
}

/// The running proxy of a job.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct EgressTask(tokio::task::JoinHandle<()>);

#[cfg(target_os = "linux")]
impl Drop for EgressTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
