//! The guardian's end of the socket: the request with its files, then single letters; events go back.

use std::{
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recv, recvmsg, send},
};

use super::message::{GuardianEvent, GuardianRequest};
use crate::pipes::ChildEnds;

/// A request larger than any argument list the kernel accepts is not one of ours.
const REQUEST_LIMIT: usize = 64 * 1024 * 1024;

/// The socket, which is the guardian's stdin.
#[derive(Debug, Clone, Copy)]
pub(super) struct GuardianControl(BorrowedFd<'static>);

/// What was read from the supervisor.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ControlInput {
    Letter(u8),
    Nothing,
    /// The supervisor is gone.
    End,
}

impl GuardianControl {
    pub(super) fn new(socket: BorrowedFd<'static>) -> Self {
        GuardianControl(socket)
    }

    pub(super) fn socket(&self) -> BorrowedFd<'static> {
        self.0
    }

    /// Waits for the request and the child's files.
    pub(super) fn receive_request(&self) -> io::Result<(GuardianRequest, ChildEnds)> {
        let mut length = [0; 4];
        let ends = self.receive_files(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > REQUEST_LIMIT {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut text = vec![0; length];
        self.receive_exactly(&mut text)?;
        Ok((serde_json::from_slice(&text)?, ends))
    }

    /// The files travel with the first bytes.
    fn receive_files(&self, bytes: &mut [u8; 4]) -> io::Result<ChildEnds> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(bytes)];
        let message = recvmsg(self.0, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL)?;
        let mut files: Vec<OwnedFd> = ancillary.drain().flat_map(files_of).collect();
        // The fourth is there only for a child with a list of hosts.
        let egress = if files.len() == 4 { files.pop() } else { None };
        let (4, Ok([stdin, stdout, stderr])) = (message.bytes, <[OwnedFd; 3]>::try_from(files)) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        Ok(ChildEnds { stdin, stdout, stderr, egress })
    }

    fn receive_exactly(&self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let (count, _) = recv(self.0, &mut *buffer, RecvFlags::empty())?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer = &mut buffer[count..];
        }
        Ok(())
    }

    /// Hears the next letter without waiting; any failure counts as the end, since we must not outlive our owner.
    pub(super) fn hear(&self) -> ControlInput {
        let mut letter = [0; 1];
        match recv(self.0, &mut letter, RecvFlags::DONTWAIT) {
            Ok((1, _)) => ControlInput::Letter(letter[0]),
            Err(Errno::AGAIN | Errno::INTR) => ControlInput::Nothing,
            _ => ControlInput::End,
        }
    }

    /// Sends an event. A supervisor that is gone is not an error.
    pub(super) fn send_event(&self, event: &GuardianEvent) {
        let mut line = serde_json::to_vec(event).expect("events are plain data");
        line.push(b'\n');
        let _ = send(self.0, &line, SendFlags::NOSIGNAL);
    }
}

pub(crate) fn files_of(message: RecvAncillaryMessage<'_>) -> Vec<OwnedFd> {
    match message {
        RecvAncillaryMessage::ScmRights(files) => files.collect(),
        _ => Vec::new(),
    }
}
