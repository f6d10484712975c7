//! Memory for what a child says, used again as soon as nobody holds a message in it.
//!
//! Messages are slices of the buffer that they were read into, so a buffer is free only when the last of them has
//! been passed on. Giving large buffers back to the allocator and asking for new ones costs more than reading into
//! them: the kernel has to find, clear and map every page anew.

use bytes::BytesMut;

/// A quiet connection holds this much; a busy one grows.
const SMALL: usize = 8 << 10;
/// As much as the pipe holds, so that one read can empty it.
const LARGE: usize = 256 << 10;
/// How many large buffers wait for their messages to be passed on.
const RESTING: usize = 4;

/// After so many short reads in a row one of them is given back.
const QUIET: u32 = 64;

/// The buffer that is read into, and those that were full.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// What was read and is not yet a whole message.
    pub(super) current: BytesMut,
    resting: Vec<BytesMut>,
    quiet_reads: u32,
}

impl Buffers {
    /// Makes room for the next read. A message that did not fit brings a large buffer, and so does a busy stream.
    pub(super) fn make_room(&mut self) {
        if !self.current.is_empty() {
            self.reserve(LARGE);
        } else if self.current.capacity() < SMALL {
            self.reserve(SMALL);
        }
    }

    /// Tells how much the last read brought: while little comes, the large buffers are given back one by one.
    pub(super) fn has_read(&mut self, bytes: usize) {
        self.quiet_reads = if bytes < SMALL { self.quiet_reads + 1 } else { 0 };
        if self.quiet_reads >= QUIET {
            self.quiet_reads = 0;
            self.resting.pop();
        }
    }

    fn reserve(&mut self, more: usize) {
        let is_there = self.current.capacity() - self.current.len() >= more;
        if is_there || self.current.try_reclaim(more) {
            return;
        }
        let size = self.current.len() + more;
        let mut next = self.rested(size).unwrap_or_else(|| BytesMut::with_capacity(size));
        next.extend_from_slice(&self.current);
        let mut full = std::mem::replace(&mut self.current, next);
        if more == LARGE && self.resting.len() < RESTING {
            full.clear();
            self.resting.push(full);
        }
    }

    /// A buffer whose messages are all gone.
    fn rested(&mut self, size: usize) -> Option<BytesMut> {
        let index = self.resting.iter_mut().position(|buffer| buffer.try_reclaim(size))?;
        Some(self.resting.swap_remove(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `bytes` bytes, of which everything but `rest` becomes a message.
    fn read(buffers: &mut Buffers, bytes: usize, rest: usize) -> BytesMut {
        read_of(buffers, b'x', bytes, rest)
    }

    fn read_of(buffers: &mut Buffers, byte: u8, bytes: usize, rest: usize) -> BytesMut {
        buffers.make_room();
        buffers.current.extend_from_slice(&vec![byte; bytes]);
        buffers.has_read(bytes);
        let whole = buffers.current.len() - rest;
        buffers.current.split_to(whole)
    }

    fn address(buffer: &BytesMut) -> usize {
        buffer.as_ptr() as usize
    }

    #[test]
    fn a_buffer_is_used_again_once_its_messages_are_gone() {
        let mut buffers = Buffers::default();
        drop(read(&mut buffers, SMALL, 1));
        let first = read(&mut buffers, LARGE, 1);
        let place = address(&first);
        let second = read(&mut buffers, LARGE, 1);
        assert_eq!(buffers.resting.len(), 2, "the small one and the one that `first` lies in");
        drop(first);
        let third = read(&mut buffers, LARGE, 1);
        assert_eq!((address(&third), third.len()), (place, LARGE));
        assert_ne!(address(&second), place);
    }

    #[test]
    fn messages_that_are_still_held_are_never_written_over() {
        let mut buffers = Buffers::default();
        let mut held = Vec::new();
        for byte in 0..2 * RESTING as u8 {
            held.push((byte, read_of(&mut buffers, byte, LARGE, 0)));
            buffers.current.extend_from_slice(b"the beginning of the next");
            held.push((b'.', read_of(&mut buffers, b'.', 1, 0).split_off(25)));
        }
        assert!(held.iter().all(|(byte, message)| message.iter().all(|found| found == byte)));
    }

    #[test]
    fn large_buffers_are_given_back_while_little_comes() {
        let mut buffers = Buffers::default();
        drop((0..4).map(|_| read(&mut buffers, LARGE, 7)).collect::<Vec<_>>());
        assert!(!buffers.resting.is_empty());
        for _ in 0..QUIET as usize * RESTING {
            drop(read(&mut buffers, 100, 0));
        }
        assert!(buffers.resting.is_empty());
    }
}
