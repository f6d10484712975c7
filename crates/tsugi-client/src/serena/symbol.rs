//! The types of Serena's results.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Which symbols to find.
#[derive(Debug, Clone, Default)]
pub struct FindSymbol {
    /// The name, or a path of names such as `Basket/total`.
    pub name: String,
    /// Only of these kinds; empty means all.
    pub kinds: Vec<SymbolKind>,
    /// Only in this file or directory.
    pub path: Option<String>,
    /// With the source text.
    pub include_body: bool,
    /// With what is within them, this many levels.
    pub depth: u32,
    /// Include names that contain it.
    pub is_part_of_name: bool,
}

impl FindSymbol {
    /// Symbols of this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    pub(super) fn to_arguments(&self) -> Value {
        let kinds: Vec<u32> = self.kinds.iter().map(|kind| kind.number()).collect();
        json!({
            "name_path_pattern": self.name,
            "relative_path": self.path.as_deref().unwrap_or_default(),
            "include_body": self.include_body,
            "include_kinds": kinds,
            "depth": self.depth,
            "substring_matching": self.is_part_of_name,
        })
    }
}

/// What a symbol is, by the numbers of the Language Server Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymbolKind {
    Class,
    /// A method of a class.
    Method,
    Interface,
    Function,
    Variable,
    Constant,
    Struct,
    /// Any other, by its number.
    Other(u32),
}

impl SymbolKind {
    fn number(self) -> u32 {
        match self {
            SymbolKind::Class => 5,
            SymbolKind::Method => 6,
            SymbolKind::Interface => 11,
            SymbolKind::Function => 12,
            SymbolKind::Variable => 13,
            SymbolKind::Constant => 14,
            SymbolKind::Struct => 23,
            SymbolKind::Other(number) => number,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct CodeSymbol {
    /// Its path of names, such as `Basket/total`.
    #[serde(rename = "name_path")]
    pub name: String,
    /// What it is, in a word: `Class`, `Method`.
    #[serde(default)]
    pub kind: String,
    #[serde(rename = "relative_path", default)]
    pub path: String,
    /// Where it is defined.
    #[serde(rename = "body_location", default)]
    pub lines: Option<LineRange>,
    /// Its source, when asked for.
    #[serde(default)]
    pub body: Option<String>,
    /// All other members.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

/// The first and the last line, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub struct LineRange {
    #[serde(rename = "start_line")]
    pub first: u32,
    #[serde(rename = "end_line")]
    pub last: u32,
}

/// The symbols of a file by kind; a symbol with others inside is a map from its name to those.
pub type SymbolOverview = BTreeMap<String, Vec<Value>>;

/// A symbol that refers to another.
#[derive(Debug, Clone, PartialEq)]
pub struct SymbolReference {
    pub path: String,
    pub kind: String,
    /// The symbol in which the reference stands.
    pub name: String,
    /// The lines around it.
    pub around: String,
}

/// Lines that matched a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternHit {
    pub path: String,
    /// The lines with their numbers, as Serena shows them.
    pub text: String,
}

/// What is in a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct DirectoryListing {
    #[serde(default)]
    pub dirs: Vec<String>,
    #[serde(default)]
    pub files: Vec<String>,
}
