//! Sheets that small answers are written on one after another: a buffer of its own for each would be taken from and
//! given back to the allocator with every call, in sizes for which it has to search.

use std::cell::RefCell;

use bytes::{Bytes, BytesMut};

/// How large a sheet is. It is free again when the last answer on it was sent.
const SHEET: usize = 32 << 10;
/// What is larger gets a buffer of its own.
const SMALL: usize = SHEET / 4;

thread_local! {
    static CURRENT: RefCell<BytesMut> = RefCell::default();
}

/// The bytes that `write` writes: about `size` of them.
pub(super) fn write_small(size: usize, write: impl FnOnce(&mut BytesMut)) -> Bytes {
    if size > SMALL {
        let mut own = BytesMut::with_capacity(size);
        write(&mut own);
        return own.freeze();
    }
    CURRENT.with_borrow_mut(|sheet| {
        // What somebody left who broke off is nobody's answer.
        sheet.clear();
        if sheet.capacity() < size {
            // Takes the same sheet again where nobody holds any of it.
            sheet.reserve(SHEET);
        }
        write(sheet);
        sheet.split().freeze()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_stays_while_others_write() {
        let kept: Vec<Bytes> =
            (0..200u8).map(|byte| write_small(1000, |sheet| sheet.extend_from_slice(&[byte; 1000]))).collect();
        for (byte, bytes) in (0..200u8).zip(kept) {
            assert_eq!(bytes, vec![byte; 1000]);
        }
    }

    #[test]
    fn what_was_left_half_written_is_not_in_the_next_answer() {
        std::panic::catch_unwind(|| {
            write_small(8, |sheet| {
                sheet.extend_from_slice(b"secret");
                panic!("in the middle of it");
            })
        })
        .unwrap_err();
        assert_eq!(write_small(8, |sheet| sheet.extend_from_slice(b"mine")), "mine");
    }

    #[test]
    fn more_than_was_said_and_more_than_fits_is_written_too() {
        for size in [0, 1, SMALL, SMALL + 1, 3 * SHEET] {
            let bytes = write_small(size.min(10), |sheet| sheet.resize(size, b'x'));
            assert_eq!(bytes, vec![b'x'; size]);
        }
    }
}
