//! Read buffers that are reused once no message in them is held.
//!
//! Messages are slices of the buffer that they were read into, so a buffer is free only when the last of them has
//! been forwarded. Returning large buffers to the allocator and allocating new ones costs more than reading into them,
//! because the kernel has to find, clear and map every page again.

use bytes::BytesMut;

use crate::switch::RuntimeTrick;

/// The buffer of a quiet connection.
const SMALL: usize = 8 << 10;
/// The capacity of the pipe, so that one read can empty it.
const LARGE: usize = 256 << 10;
/// A busy connection does not read into less space than this.
const ROOM: usize = 64 << 10;
/// How many large buffers wait for their messages to be forwarded. All have one size, so any of them fits.
const RESTING: usize = 16;
/// After this many short reads in a row one of them is freed.
const QUIET: u32 = 64;

/// The buffer that is read into, and the full ones that wait to be reused.
#[derive(Debug, Default)]
pub struct ReadBuffers {
    /// Bytes that were read and are not yet a whole message.
    pub current: BytesMut,
    /// The allocated size of `current`.
    size: usize,
    resting: Vec<BytesMut>,
    quiet_reads: u32,
}

impl ReadBuffers {
    /// Makes room for the next read. A message that did not fit, or a busy stream, gets a large buffer.
    pub fn make_room(&mut self) {
        if self.current.is_empty() {
            self.reserve(SMALL, SMALL);
        } else {
            // Doubled, so that a huge message is not copied again for every quarter of a mebibyte.
            let size = (self.current.len() + ROOM).max(self.current.len() * 2).next_multiple_of(LARGE);
            self.reserve(ROOM, size);
        }
    }

    /// Records how much the last read returned: while reads are short, the large buffers are freed one by one.
    pub fn has_read(&mut self, bytes: usize) {
        self.quiet_reads = if bytes < SMALL { self.quiet_reads + 1 } else { 0 };
        if self.quiet_reads >= QUIET {
            self.quiet_reads = 0;
            self.resting.pop();
        }
    }

    /// Makes room for `more` bytes, in another buffer of `size` bytes if necessary.
    fn reserve(&mut self, more: usize, size: usize) {
        if RuntimeTrick::ReadBuffers.is_plain() {
            return self.current.reserve(more);
        }
        let is_there = self.current.capacity() - self.current.len() >= more;
        if is_there || self.current.try_reclaim(more) {
            return;
        }
        let rested = if size == LARGE { self.rested() } else { None };
        let mut next = rested.unwrap_or_else(|| BytesMut::with_capacity(size));
        next.extend_from_slice(&self.current);
        let mut full = std::mem::replace(&mut self.current, next);
        let is_large = std::mem::replace(&mut self.size, size) == LARGE;
        if is_large && self.resting.len() < RESTING {
            full.clear();
            self.resting.push(full);
        }
    }

    /// A buffer none of whose messages is held any more.
    fn rested(&mut self) -> Option<BytesMut> {
        let index = self.resting.iter_mut().position(|buffer| buffer.try_reclaim(LARGE))?;
        Some(self.resting.swap_remove(index))
    }
}

#[cfg(all(test, not(feature = "plain")))]
mod tests {
    use super::*;

    /// Reads `bytes` bytes, of which everything but `rest` becomes a message.
    fn read(buffers: &mut ReadBuffers, bytes: usize, rest: usize) -> BytesMut {
        read_of(buffers, b'x', bytes, rest)
    }

    fn read_of(buffers: &mut ReadBuffers, byte: u8, bytes: usize, rest: usize) -> BytesMut {
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
    fn a_buffer_is_reused_once_its_messages_are_gone() {
        let mut buffers = ReadBuffers::default();
        drop(read(&mut buffers, SMALL, 1));
        let first = read(&mut buffers, LARGE - ROOM, 1);
        let second = read(&mut buffers, LARGE - ROOM, 1);
        assert_eq!(buffers.resting.len(), 1, "the one that `first` lies in");
        let held = first.as_ptr() as usize..first.as_ptr() as usize + first.len();
        drop(first);
        let third = read(&mut buffers, LARGE - ROOM, 1);
        assert!(held.contains(&address(&third)), "the memory of the first");
        assert!(!held.contains(&address(&second)));
    }

    #[test]
    fn a_huge_message_is_copied_a_few_times_only() {
        let mut buffers = ReadBuffers::default();
        let mut moves = 0;
        for _ in 0..512 {
            let before = address(&buffers.current);
            buffers.make_room();
            moves += usize::from(address(&buffers.current) != before);
            buffers.current.extend_from_slice(&[b'x'; 32 << 10]);
        }
        assert!(moves < 12, "{moves} times");
        assert_eq!(buffers.current.len(), 16 << 20);
    }

    #[test]
    fn messages_that_are_still_held_are_never_written_over() {
        let mut buffers = ReadBuffers::default();
        let mut held = Vec::new();
        for byte in 0..2 * RESTING as u8 {
            held.push((byte, read_of(&mut buffers, byte, LARGE, 0)));
            buffers.current.extend_from_slice(b"the beginning of the next");
            held.push((b'.', read_of(&mut buffers, b'.', 1, 0).split_off(25)));
        }
        assert!(held.iter().all(|(byte, message)| message.iter().all(|found| found == byte)));
    }

    #[test]
    fn large_buffers_are_freed_while_reads_are_short() {
        let mut buffers = ReadBuffers::default();
        drop((0..4).map(|_| read(&mut buffers, LARGE / 2, 7)).collect::<Vec<_>>());
        assert!(!buffers.resting.is_empty());
        for _ in 0..QUIET as usize * RESTING {
            drop(read(&mut buffers, 100, 0));
        }
        assert!(buffers.resting.is_empty());
    }
}
