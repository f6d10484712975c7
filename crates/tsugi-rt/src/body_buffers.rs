//! Buffers for the bodies of responses, reused once the last slice of them is gone.
//!
//! A body of a hundred kilobytes is more than the allocator keeps: it fetches the memory from the kernel for every
//! answer and returns it afterwards, and finding, clearing and mapping the pages costs more than reading the body into
//! them. Here a thread keeps a few such buffers. Connections hold one only while an answer arrives.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use bytes::BytesMut;

use crate::switch::RuntimeTrick;

/// The usual buffer: several small answers fit into it one after another.
const USUAL: usize = 32 << 10;
/// A larger one is returned to the allocator.
const LARGEST: usize = 512 << 10;
/// How many a thread keeps.
const KEPT: usize = 8;
/// After this many usual ones in a row, a large one is freed.
const QUIET: u32 = 256;

thread_local! {
    static BUFFERS: RefCell<IdleBuffers> = RefCell::default();
}

#[derive(Default)]
struct IdleBuffers {
    kept: Vec<(BytesMut, usize)>,
    quiet: u32,
}

/// A buffer to read into. What is split off stays valid when it is dropped; the memory is then reused as soon as those
/// slices are gone.
#[derive(Debug)]
pub struct BodyBuffer {
    bytes: BytesMut,
    /// The size of the allocation.
    size: usize,
}

impl BodyBuffer {
    /// An empty buffer with room for at least `room` bytes.
    pub fn with_room(room: usize) -> Self {
        if RuntimeTrick::BodyBuffers.is_plain() {
            return Self { bytes: BytesMut::with_capacity(room), size: 0 };
        }
        let found = BUFFERS.with_borrow_mut(|buffers| buffers.take(room));
        let (bytes, size) = found.unwrap_or_else(|| {
            let size = room.max(USUAL).next_power_of_two();
            (BytesMut::with_capacity(size), size)
        });
        Self { bytes, size }
    }

    /// Makes room for `more` bytes behind those that are here. They move to another buffer if this one is too small.
    pub fn make_room(&mut self, more: usize) {
        if self.bytes.capacity() - self.bytes.len() >= more {
            return;
        }
        let mut larger = Self::with_room(self.bytes.len() + more);
        larger.bytes.extend_from_slice(&self.bytes);
        *self = larger;
    }
}

impl Deref for BodyBuffer {
    type Target = BytesMut;

    fn deref(&self) -> &BytesMut {
        &self.bytes
    }
}

impl DerefMut for BodyBuffer {
    fn deref_mut(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }
}

impl Drop for BodyBuffer {
    fn drop(&mut self) {
        if self.size == 0 || self.size > LARGEST {
            return;
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        // A thread that ends has no more use for it.
        let _ = BUFFERS.try_with(|buffers| buffers.borrow_mut().keep(bytes, self.size));
    }
}

impl IdleBuffers {
    fn take(&mut self, room: usize) -> Option<(BytesMut, usize)> {
        self.note(room);
        // The last one first: it was used a moment ago, so it is in the processor's cache. Small answers leave the large
        // ones alone.
        let fits = |(bytes, size): &mut (BytesMut, usize)| {
            *size >= room && (*size == USUAL || room > USUAL) && bytes.try_reclaim(room)
        };
        let index = (0..self.kept.len()).rev().find(|&index| fits(&mut self.kept[index]))?;
        Some(self.kept.remove(index))
    }

    fn keep(&mut self, bytes: BytesMut, size: usize) {
        if self.kept.len() >= KEPT {
            self.kept.remove(0);
        }
        self.kept.push((bytes, size));
    }

    /// Frees large buffers one by one while no large answer comes.
    fn note(&mut self, room: usize) {
        self.quiet = if room > USUAL { 0 } else { self.quiet + 1 };
        if self.quiet >= QUIET {
            self.quiet = 0;
            if let Some(index) = self.kept.iter().position(|(_, size)| *size > USUAL) {
                self.kept.remove(index);
            }
        }
    }
}

#[cfg(all(test, not(feature = "plain")))]
mod tests {
    use super::*;

    fn filled(byte: u8, count: usize) -> (BytesMut, usize) {
        let mut buffer = BodyBuffer::with_room(count);
        buffer.extend_from_slice(&vec![byte; count]);
        let address = buffer.as_ptr() as usize;
        (buffer.split(), address)
    }

    #[test]
    fn a_buffer_is_used_again_once_nothing_of_it_is_held() {
        let (first, address) = filled(1, 100 << 10);
        let (second, other) = filled(2, 100 << 10);
        assert_ne!(address, other, "the first is held");
        drop(first);
        let (third, again) = filled(3, 100 << 10);
        assert_eq!(again, address);
        assert!(second.iter().all(|byte| *byte == 2) && third.iter().all(|byte| *byte == 3));
    }

    #[test]
    fn held_answers_are_never_written_over() {
        let held: Vec<_> =
            (0..100u8).map(|byte| (byte, filled(byte, if byte % 3 == 0 { 90 << 10 } else { 900 }).0)).collect();
        assert!(held.iter().all(|(byte, answer)| answer.iter().all(|found| found == byte)));
    }

    #[test]
    fn room_is_made_without_losing_what_is_here() {
        let mut buffer = BodyBuffer::with_room(10);
        buffer.extend_from_slice(b"head");
        for more in [USUAL, 3 * USUAL, 2 * LARGEST] {
            buffer.make_room(more);
            assert!(buffer.capacity() - buffer.len() >= more);
            assert_eq!(&buffer[..], b"head");
        }
    }

    #[test]
    fn few_are_kept_and_large_ones_only_while_they_are_needed() {
        let held: Vec<_> = (0..3 * KEPT).map(|_| filled(7, 100 << 10)).collect();
        drop(held);
        assert_eq!(BUFFERS.with_borrow(|buffers| buffers.kept.len()), KEPT);
        for _ in 0..QUIET as usize * (KEPT + 1) {
            drop(filled(7, 100));
        }
        assert!(BUFFERS.with_borrow(|buffers| buffers.kept.iter().all(|(_, size)| *size == USUAL)));
        drop(filled(7, 2 * LARGEST));
        assert!(BUFFERS.with_borrow(|buffers| buffers.kept.iter().all(|(_, size)| *size <= LARGEST)));
    }
}
