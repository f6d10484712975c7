//! The integration tests of `tsugi-schema`, in one binary.

mod hostile;
mod validate;
