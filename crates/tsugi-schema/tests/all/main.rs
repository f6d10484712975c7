//! The integration tests of `tsugi-schema`, in one binary.

mod arguments;
mod generate;
mod golden;
mod hostile;
mod property;
mod rules;
mod validate;
