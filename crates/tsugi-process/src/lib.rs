//! Run a child process confined, watched and stoppable; the only crate with unsafe code.
