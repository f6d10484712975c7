//! Policies from outside: files in, decisions and problems out.

mod cache;
mod decide;
mod file;
mod lint;
mod support;
