//! What MCP messages are: parse, name and translate them between eras, without a socket or a clock.
//!
//! Read in this order: [`json`] validates bytes and finds members without rebuilding anything,
//! [`rpc`] is the JSON-RPC envelope, [`codec`] cuts byte streams into messages, [`mcp`] names what the
//! messages are about, [`answer`] is the one seam that everything answering a call implements,
//! [`era`] translates between the modern revision and the older ones, and [`serve`] is a small way to
//! write a server in this process.
//!
//! The only unsafe code is the vector code of the string scanner (`json::scan::string`), behind the feature `simd`.

pub mod answer;
pub mod codec;
pub mod era;
pub mod json;
pub mod mcp;
pub mod rpc;
pub mod serve;
