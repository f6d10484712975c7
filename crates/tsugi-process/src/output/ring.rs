//! The last bytes of a stream, in memory that never grows.

/// Keeps the last `capacity` bytes given to it.
#[derive(Debug)]
pub(super) struct ByteRing {
    bytes: Vec<u8>,
    capacity: usize,
    /// Where the oldest byte is, once the ring is full.
    start: usize,
    total: u64,
}

impl ByteRing {
    pub(super) fn new(capacity: usize) -> Self {
        ByteRing { bytes: Vec::new(), capacity, start: 0, total: 0 }
    }

    pub(super) fn push(&mut self, new: &[u8]) {
        self.total += new.len() as u64;
        let new = &new[new.len().saturating_sub(self.capacity)..];
        let room = (self.capacity - self.bytes.len()).min(new.len());
        let (fill, over) = new.split_at(room);
        self.bytes.extend_from_slice(fill);
        self.overwrite(over);
    }

    /// Writes over the oldest bytes; only called when the ring is full.
    fn overwrite(&mut self, new: &[u8]) {
        let until_end = (self.capacity - self.start).min(new.len());
        let (first, second) = new.split_at(until_end);
        self.bytes[self.start..self.start + first.len()].copy_from_slice(first);
        self.bytes[..second.len()].copy_from_slice(second);
        self.start = (self.start + new.len()) % self.capacity;
    }

    /// What is kept, oldest first, and whether something before it was lost.
    pub(super) fn content(&self) -> (Vec<u8>, bool) {
        let (second, first) = self.bytes.split_at(self.start);
        ([first, second].concat(), self.total > self.bytes.len() as u64)
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_keeps_exactly_the_last_bytes_however_they_come() {
        let stream: Vec<u8> = (0..100).collect();
        for piece in 1..=25 {
            let mut ring = ByteRing::new(10);
            for (index, chunk) in stream.chunks(piece).enumerate() {
                ring.push(chunk);
                let seen = ((index + 1) * piece).min(stream.len());
                let expected = &stream[seen.saturating_sub(10)..seen];
                assert_eq!(ring.content(), (expected.to_vec(), seen > 10), "pieces of {piece}");
            }
            assert_eq!(ring.total(), 100);
        }
    }
}
