//! The crate seen from outside: golden files of the era translation, and properties of codecs and scanner.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests may fail loudly and say what they skip")]

mod codec_property;
mod era_action;
mod era_golden;
mod era_property;
mod golden;
mod json_property;
mod official_schema;
