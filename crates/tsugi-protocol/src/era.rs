//! Translation between the modern revision and the older ones, as pure functions.
//!
//! Inside tsugi everything is modern. A legacy peer meets these functions twice: at the face above, when
//! it calls, and at the connection below, when it is called. A result keeps the form it was written in
//! until a face asks for another, so that two peers of one era never pay for a translation.
//!
//! [`detect`] finds out which era a server belongs to, [`session`] writes and reads what each era opens
//! with, [`to_modern`] and [`to_legacy`] translate requests, results and errors, [`round_trip`] turns a
//! server's requests into questions and back, [`change`] handles what a server announces, and
//! [`revision`] leaves out what an older revision cannot carry.

pub mod change;
pub mod detect;
pub mod revision;
pub mod round_trip;
pub mod session;
pub mod to_legacy;
pub mod to_modern;
