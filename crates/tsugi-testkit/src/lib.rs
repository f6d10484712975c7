//! Scripted servers, faulty links and golden-file helpers, for tests only.
