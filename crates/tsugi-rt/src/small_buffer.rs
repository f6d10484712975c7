//! A per-thread buffer that small responses are written into one after another.
//!
//! Otherwise each response would allocate and free a buffer, in sizes for which the allocator has to search.

use std::cell::RefCell;

use bytes::{Bytes, BytesMut};

use crate::switch::RuntimeTrick;

/// The size of a block. It can be reused once the last response in it was sent.
const BLOCK: usize = 32 << 10;
/// Larger responses get a buffer of their own.
const SMALL: usize = BLOCK / 4;

thread_local! {
    static CURRENT: RefCell<BytesMut> = RefCell::default();
}

/// Returns the bytes that `write` writes. `size` is an estimate of how many.
pub fn write_small(size: usize, write: impl FnOnce(&mut BytesMut)) -> Bytes {
    if size > SMALL || RuntimeTrick::SmallBuffer.is_plain() {
        let mut own = BytesMut::with_capacity(size);
        write(&mut own);
        return own.freeze();
    }
    CURRENT.with_borrow_mut(|block| {
        // A writer that panicked may have left bytes behind.
        block.clear();
        if block.capacity() < size {
            // Reuses the same block if no response in it is held any more.
            block.reserve(BLOCK);
        }
        write(block);
        block.split().freeze()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_bytes_stay_while_others_are_written() {
        let kept: Vec<Bytes> =
            (0..200u8).map(|byte| write_small(1000, |block| block.extend_from_slice(&[byte; 1000]))).collect();
        for (byte, bytes) in (0..200u8).zip(kept) {
            assert_eq!(bytes, vec![byte; 1000]);
        }
    }

    #[test]
    fn a_half_written_response_does_not_leak_into_the_next() {
        std::panic::catch_unwind(|| {
            write_small(8, |block| {
                block.extend_from_slice(b"secret");
                panic!("half way");
            })
        })
        .unwrap_err();
        assert_eq!(write_small(8, |block| block.extend_from_slice(b"mine")), "mine");
    }

    #[test]
    fn more_than_was_estimated_and_more_than_fits_is_written_too() {
        for size in [0, 1, SMALL, SMALL + 1, 3 * BLOCK] {
            let bytes = write_small(size.min(10), |block| block.resize(size, b'x'));
            assert_eq!(bytes, vec![b'x'; size]);
        }
    }
}
