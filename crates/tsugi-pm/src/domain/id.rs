//! Names of things, each its own type, so that a task never passes for a session.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::fault::PmFault;

/// Thirty-two letters, so that one letter carries exactly five random bits.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Twenty letters: one hundred random bits.
const RANDOM_LETTERS: usize = 20;
/// The longest tail that is accepted, so that ids made by older systems stay valid.
const LONGEST_TAIL: usize = 60;

/// Spells one hundred bits as the tail of an id.
fn tail(mut bits: u128) -> String {
    (0..RANDOM_LETTERS)
        .map(|_| {
            // Five bits at a time, lowest first.
            let letter = ALPHABET[(bits & 31) as usize];
            bits >>= 5;
            char::from(letter)
        })
        .collect()
}

fn check(prefix: &str, text: &str) -> Result<(), PmFault> {
    // The prefix alone is not enough: `tskx_1` is not a task.
    let tail = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_'));
    let is_valid = tail.is_some_and(|tail| {
        (1..=LONGEST_TAIL).contains(&tail.len())
            && tail.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    });
    if is_valid { Ok(()) } else { Err(PmFault::invalid(format!("`{text}` is not an id of the form {prefix}_…"))) }
}

/// The JSON Schema of a name: a text, whatever its form.
macro_rules! written_as_text {
    ($name:ident) => {
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                // Without a pattern: the lists of tools have no room for it, and parsing says more.
                schemars::json_schema!({"type": "string"})
            }
        }
    };
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// What every id of this kind begins with.
            pub const PREFIX: &'static str = $prefix;

            /// Makes a new id from random bits.
            pub fn mint(bits: u128) -> Self {
                Self(format!("{}_{}", $prefix, tail(bits)))
            }

            /// Reads an id, refusing other kinds.
            pub fn parse(text: &str) -> Result<Self, PmFault> {
                check($prefix, text)?;
                Ok(Self(text.to_owned()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = PmFault;

            fn try_from(text: String) -> Result<Self, PmFault> {
                check($prefix, &text)?;
                Ok(Self(text))
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        written_as_text!($name);
    };
}

id!(ProjectId, "prj");
id!(
    /// An agent: a person or a program that works.
    AgentId, "agt"
);
id!(
    /// A session: one stretch of work of one agent. A name, not a capability.
    SessionId, "ses"
);
id!(TaskId, "tsk");
id!(
    /// A claim: one session's hold on one task.
    ClaimId, "clm"
);
id!(
    /// A piece of context.
    ContextId, "ctx"
);
id!(HandoffId, "hnd");
id!(EventId, "evt");
id!(
    /// An access token's public name.
    TokenId, "tok"
);

/// How a caller may name a task: by id or by its reference `KEY-n`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TaskRef {
    /// `tsk_…`
    Id(TaskId),
    /// `WEB-42`
    Reference(String),
}

impl TaskRef {
    pub fn parse(text: &str) -> Result<Self, PmFault> {
        // No project key has an underscore, so the two forms cannot be confused.
        if text.starts_with("tsk_") {
            return TaskId::parse(text).map(Self::Id);
        }
        let is_reference = text
            .split_once('-')
            // `WEB-01` is not `WEB-1`: every task has exactly one reference.
            .is_some_and(|(key, number)| is_project_key(key) && !number.starts_with('0') && is_number(number));
        if is_reference {
            Ok(Self::Reference(text.to_owned()))
        } else {
            Err(PmFault::invalid(format!("`{text}` is neither tsk_… nor KEY-n")))
        }
    }
}

impl TryFrom<String> for TaskRef {
    type Error = PmFault;

    fn try_from(text: String) -> Result<Self, PmFault> {
        Self::parse(&text)
    }
}

impl From<TaskRef> for String {
    fn from(reference: TaskRef) -> Self {
        match reference {
            TaskRef::Id(id) => id.into(),
            TaskRef::Reference(text) => text,
        }
    }
}

impl From<TaskId> for TaskRef {
    fn from(id: TaskId) -> Self {
        Self::Id(id)
    }
}

impl fmt::Display for TaskRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(formatter),
            Self::Reference(text) => formatter.write_str(text),
        }
    }
}

written_as_text!(TaskRef);

/// How a caller may name a project: by id or by its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ProjectRef {
    /// `prj_…`
    Id(ProjectId),
    /// `WEB`
    Key(String),
}

impl ProjectRef {
    pub fn parse(text: &str) -> Result<Self, PmFault> {
        // Keys are upper case, so this can only be an id.
        if text.starts_with("prj_") {
            return ProjectId::parse(text).map(Self::Id);
        }
        if is_project_key(text) {
            Ok(Self::Key(text.to_owned()))
        } else {
            Err(PmFault::invalid(format!("`{text}` is neither prj_… nor the key of a project"))
                .hint("a key is two to ten capital letters and digits, as in front of the numbers of its tasks"))
        }
    }
}

impl TryFrom<String> for ProjectRef {
    type Error = PmFault;

    fn try_from(text: String) -> Result<Self, PmFault> {
        Self::parse(&text)
    }
}

impl From<ProjectRef> for String {
    fn from(reference: ProjectRef) -> Self {
        match reference {
            ProjectRef::Id(id) => id.into(),
            ProjectRef::Key(key) => key,
        }
    }
}

impl From<ProjectId> for ProjectRef {
    fn from(id: ProjectId) -> Self {
        Self::Id(id)
    }
}

impl From<&ProjectId> for ProjectRef {
    fn from(id: &ProjectId) -> Self {
        Self::Id(id.clone())
    }
}

impl fmt::Display for ProjectRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(formatter),
            Self::Key(key) => formatter.write_str(key),
        }
    }
}

written_as_text!(ProjectRef);

/// Whether a text may be a project's key: `^[A-Z][A-Z0-9]{1,9}$`.
pub fn is_project_key(text: &str) -> bool {
    // The length in bytes is that in letters, since all are ASCII.
    (2..=10).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

fn is_number(text: &str) -> bool {
    (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minted_id_has_a_prefix_and_twenty_letters_and_reads_back() {
        let id = TaskId::mint(u128::MAX);
        assert_eq!(id.as_str(), "tsk_zzzzzzzzzzzzzzzzzzzz");
        assert_eq!(TaskId::parse(id.as_str()).unwrap(), id);
    }

    #[test]
    fn ids_of_older_systems_stay_valid_and_other_kinds_are_refused() {
        for valid in ["agt_abc123", "agt_frontend01", "agt_A-b"] {
            assert!(AgentId::parse(valid).is_ok(), "{valid}");
        }
        let long = format!("agt_{}", "a".repeat(61));
        for wrong in ["agt_", "agt", "tsk_abc", "agt_a b", "agt_é", "agt_a/b", "agt_a\0", long.as_str()] {
            assert!(AgentId::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_project_is_named_by_id_or_by_key() {
        assert!(matches!(ProjectRef::parse("prj_9b82dbc1"), Ok(ProjectRef::Id(_))));
        assert!(matches!(ProjectRef::parse("WEB"), Ok(ProjectRef::Key(_))));
        for wrong in ["web", "W", "WEB-1", "prj_", "tsk_x", ""] {
            assert!(ProjectRef::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_task_is_named_by_id_or_by_reference() {
        assert!(matches!(TaskRef::parse("tsk_9b82dbc1-34b"), Ok(TaskRef::Id(_))));
        assert!(matches!(TaskRef::parse("WEB-42"), Ok(TaskRef::Reference(_))));
        for wrong in ["WEB", "web-1", "WEB-", "WEB-x", "W-1", "WEB-01", "WEB-1-2", "prj_x", ""] {
            assert!(TaskRef::parse(wrong).is_err(), "{wrong}");
        }
    }
}
