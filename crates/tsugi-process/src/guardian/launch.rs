//! Starts a guardian and talks to it, on the supervisor's side.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    process::Stdio,
};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    process::Child,
};

use super::{
    entry,
    message::{GuardianEvent, GuardianRequest},
};
use crate::pipes::ChildEnds;

/// A guardian as its supervisor sees it.
///
/// Dropping it closes the socket, upon which the guardian ends everything and itself.
#[derive(Debug)]
pub(crate) struct GuardianHandle {
    child: Child,
    events: Lines<BufReader<OwnedReadHalf>>,
    letters: OwnedWriteHalf,
}

impl GuardianHandle {
    /// Starts a guardian that waits for its request; `label` is what `ps` shows.
    pub(crate) fn start(label: &str) -> io::Result<GuardianHandle> {
        let (ours, theirs) = UnixStream::pair()?;
        let theirs = theirs.into_std()?;
        theirs.set_nonblocking(false)?;
        let child = command(label, theirs.into()).spawn()?;
        let (events, letters) = ours.into_split();
        Ok(GuardianHandle { child, events: BufReader::new(events).lines(), letters })
    }

    /// The guardian's own process id.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Hands over the request and the child's files, which are then closed here.
    pub(crate) async fn send(&mut self, request: &GuardianRequest, ends: ChildEnds) -> io::Result<()> {
        let text = serde_json::to_vec(request)?;
        let length = u32::try_from(text.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.letters.writable().await?;
        // The buffer of a new socket is empty, so four bytes always fit.
        send_files(self.letters.as_ref(), &length.to_le_bytes(), &ends)?;
        drop(ends);
        self.letters.write_all(&text).await
    }

    /// The next event; none when the guardian has ended.
    pub(crate) async fn event(&mut self) -> Option<GuardianEvent> {
        let line = self.events.next_line().await.ok().flatten()?;
        serde_json::from_str(&line).ok()
    }

    /// Sends one letter. If the guardian is gone, [`event`](Self::event) shows it.
    pub(crate) async fn say(&mut self, letter: u8) {
        let _ = self.letters.write_all(&[letter]).await;
    }

    pub(crate) async fn bury(mut self) {
        let _ = self.child.wait().await;
    }
}

/// The guardian's stdin is the socket; it sees none of our environment but the path of shared libraries.
#[allow(clippy::disallowed_methods, reason = "this crate is the one that starts processes")]
fn command(label: &str, socket: OwnedFd) -> tokio::process::Command {
    let mut command = std::process::Command::new("/proc/self/exe");
    command.arg0(std::ffi::OsStr::from_bytes(entry::NAME.to_bytes())).arg(label).env_clear();
    if let Some(libraries) = std::env::var_os("LD_LIBRARY_PATH") {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    command.stdin(socket).stdout(Stdio::null()).stderr(Stdio::null());
    command.into()
}

fn send_files(socket: &UnixStream, bytes: &[u8], ends: &ChildEnds) -> io::Result<()> {
    let mut files = vec![ends.stdin.as_fd(), ends.stdout.as_fd(), ends.stderr.as_fd()];
    files.extend(ends.egress.as_ref().map(AsFd::as_fd));
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}
