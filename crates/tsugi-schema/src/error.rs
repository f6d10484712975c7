//! Why a schema cannot be used: one type for the validator, for references and for header annotations.

use crate::pointer::JsonPointer;

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The schema is not JSON text.
    #[error("schema is not valid JSON: {0}")]
    NotJson(String),
    /// What carries the schema was left out before anyone looked at it, for this reason.
    #[error("{0}")]
    LeftOut(String),
    /// The schema goes beyond one of the [`ValidationLimits`](crate::validate::ValidationLimits).
    #[error("schema is too costly: {what} is limited to {limit}")]
    TooCostly {
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        limit: usize,
    },
    /// A reference names another document, which is never fetched.
    #[error("{pointer}: reference {reference:?} leaves the document")]
    ReferenceLeaves {
        /// Where the reference stands.
        pointer: JsonPointer,
        /// The reference as written.
        reference: String,
    },
    /// A reference points to nothing.
    #[error("{pointer}: reference {reference:?} points to nothing")]
    ReferenceDangles {
        /// Where the reference stands.
        pointer: JsonPointer,
        /// The reference as written.
        reference: String,
    },
    /// A schema applies itself to the same value again, without end.
    #[error("{pointer}: the schema refers to itself without end")]
    EndlessReference {
        /// A place on the loop.
        pointer: JsonPointer,
    },
    /// The document is not a schema of its draft.
    #[error("{pointer}: {message}")]
    Invalid { pointer: JsonPointer, message: String },
    /// An `x-mcp-header` annotation that the specification forbids: a tool with this schema must be left out.
    #[error("{pointer}: x-mcp-header {reason}")]
    Annotation { pointer: JsonPointer, reason: AnnotationReason },
}

/// What is wrong with an `x-mcp-header` annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnnotationReason {
    NotText,
    Empty,
    /// Not an HTTP field-name token.
    NotToken(String),
    /// Another annotation gives the same name, ignoring case.
    Duplicate(String),
    /// The parameter is neither a string, an integer nor a boolean.
    NotPrimitive,
    /// Not on a chain of `properties` from the root.
    NotReachable,
}

impl SchemaError {
    /// Whether the schema costs too much, leaves its document or never ends, which no honest server needs. Any other
    /// broken schema is only careless.
    pub fn is_hostile(&self) -> bool {
        match self {
            Self::LeftOut(_)
            | Self::TooCostly { .. }
            | Self::ReferenceLeaves { .. }
            | Self::EndlessReference { .. } => true,
            Self::NotJson(_) | Self::ReferenceDangles { .. } | Self::Invalid { .. } | Self::Annotation { .. } => false,
        }
    }
}

impl std::fmt::Display for AnnotationReason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotText => formatter.write_str("is not a string"),
            Self::Empty => formatter.write_str("is empty"),
            Self::NotToken(name) => write!(formatter, "{name:?} is not an HTTP header token"),
            Self::Duplicate(name) => write!(formatter, "{name:?} is used twice (upper and lower case are the same)"),
            Self::NotPrimitive => formatter.write_str("needs a parameter of type string, integer or boolean"),
            Self::NotReachable => formatter.write_str("is only allowed on properties reached through properties alone"),
        }
    }
}
