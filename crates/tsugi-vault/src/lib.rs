//! Keep credentials sealed in a file that several processes use, or in a database that several machines use.
//!
//! Each record is sealed with AES-256-GCM, and the text of its key is part of what is authenticated: a record that is
//! copied to another owner or server does not open. A [`file::FileVault`] is one file of mode 0600, replaced as a whole,
//! with a lock file beside it for every credential that is being changed. Its key is given, or stands in a file that is
//! made with the first record.

pub mod file;
pub mod key_source;
mod lock;
pub mod postgres;
pub mod seal;
