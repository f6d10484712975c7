//! Finds the tools that a sentence asks for, among hundreds or thousands, without a model.
//!
//! A [`ToolIndex`] holds the words of every tool by field: name, title, description, parameters, server. A query is
//! split into stems, each stem may be matched by a synonym at a lower weight, and tools are ranked by BM25F: a word
//! counts more in a name than in a description, and more when few tools have it. How often a tool was called breaks
//! near ties.

mod document;
mod index;
mod outline;
mod ranking;
mod stem;
mod thesaurus;
mod words;

pub use document::{ToolDocument, ToolParameter};
pub use index::{ToolHit, ToolIndex};
pub use outline::outline;
pub use ranking::RankingWeights;
