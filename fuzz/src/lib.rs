//! What several targets share: input that says how it is to be cut, and feeding it to a decoder.

use bytes::BytesMut;
use tsugi_protocol::rpc::MessageError;

/// A stream with the limit and the cuts that its first bytes choose.
pub struct Stream<'a> {
    /// The limit of the decoder: small, so that short input crosses it.
    pub limit: usize,
    /// The sizes of the pieces, repeated to the end.
    pub cuts: [usize; 4],
    /// What arrives.
    pub bytes: &'a [u8],
}

impl<'a> Stream<'a> {
    /// Reads the choices from the first bytes; `None` when there are too few.
    pub fn of(data: &'a [u8]) -> Option<Self> {
        let (head, bytes) = data.split_at_checked(5)?;
        // From 1 to 255, small ones more often: long input cut into single bytes is slow and shows nothing new.
        let cut = |at: usize| usize::from(head[at]).pow(2) / 256 + 1;
        Some(Self { limit: usize::from(head[0]) + 1, cuts: [cut(1), cut(2), cut(3), cut(4)], bytes })
    }

    /// What a decoder gives when the stream arrives in pieces.
    pub fn cut<T>(&self, mut next: impl FnMut(&mut BytesMut) -> Next<T>) -> Fed<T> {
        let (mut fed, mut rest) = (Fed::default(), self.bytes);
        for size in self.cuts.iter().cycle() {
            let (piece, later) = rest.split_at((*size).min(rest.len()));
            rest = later;
            fed.feed(piece, &mut next);
            if rest.is_empty() {
                break;
            }
        }
        fed
    }

    /// What a decoder gives when the stream arrives at once.
    pub fn whole<T>(&self, mut next: impl FnMut(&mut BytesMut) -> Next<T>) -> Fed<T> {
        let mut fed = Fed::default();
        fed.feed(self.bytes, &mut next);
        fed
    }
}

/// What a decoder answers when it is asked.
pub type Next<T> = Option<Result<T, MessageError>>;

/// What came out, and what is still held.
#[derive(Debug)]
pub struct Fed<T> {
    /// Everything that came out, in order.
    pub items: Vec<Result<T, MessageError>>,
    /// What is waiting for more.
    pub buffer: BytesMut,
}

impl<T> Default for Fed<T> {
    fn default() -> Self {
        Self { items: Vec::new(), buffer: BytesMut::new() }
    }
}

impl<T> Fed<T> {
    fn feed(&mut self, piece: &[u8], next: &mut impl FnMut(&mut BytesMut) -> Next<T>) {
        self.buffer.extend_from_slice(piece);
        while let Some(item) = next(&mut self.buffer) {
            self.items.push(item);
        }
    }
}
