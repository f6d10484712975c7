//! Timers, wake-ups and buffers that cost less than the runtime's own.
//!
//! A call through the gateway costs about what its system calls cost, so a timer or an allocation per call shows in
//! every benchmark. Each module here replaces one such thing and explains what it saves. The feature `plain` turns
//! them into thin wrappers around tokio, hyper and the allocator.

pub mod body_buffers;
pub mod coarse_timer;
pub mod header_timeout;
pub mod read_buffers;
pub mod small_buffer;
mod switch;
pub mod wake_filter;
