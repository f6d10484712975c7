//! Keep upstream servers connected and answer calls through them.
