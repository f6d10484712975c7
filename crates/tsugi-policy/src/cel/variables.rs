//! The fields of a question under the names that conditions have for them.

use std::collections::HashMap;
use std::sync::OnceLock;

use cel::common::types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use serde_json::Value;

use crate::arguments::CallArguments;
use crate::question::{ACTIONS, ERAS, FACES, PolicyQuestion, ROLES};

/// What a field is, so that a comparison that can never hold is found when a rule is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldKind {
    Text,
    /// A text that is always one of these.
    Word(&'static [&'static str]),
    Number,
    Flag,
    TextList,
    /// Anything.
    Dynamic,
}

/// Every field that there is.
pub(super) const FIELDS: &[(&str, FieldKind)] = &[
    ("action", FieldKind::Word(ACTIONS)),
    ("principal.identity", FieldKind::Text),
    ("principal.role", FieldKind::Word(ROLES)),
    ("principal.groups", FieldKind::TextList),
    ("principal.tenant", FieldKind::Text),
    ("principal.scopes", FieldKind::TextList),
    ("principal.client", FieldKind::Text),
    ("principal.issuer", FieldKind::Text),
    ("principal.authTime", FieldKind::Number),
    ("resource.server", FieldKind::Text),
    ("resource.name", FieldKind::Text),
    ("resource.tags", FieldKind::TextList),
    ("resource.hints.readOnly", FieldKind::Flag),
    ("resource.hints.idempotent", FieldKind::Flag),
    ("resource.pinned", FieldKind::Flag),
    ("context.arguments", FieldKind::Dynamic),
    ("context.truncated", FieldKind::Flag),
    ("context.face", FieldKind::Word(FACES)),
    ("context.era", FieldKind::Word(ERAS)),
    ("context.address", FieldKind::Text),
    ("context.now", FieldKind::Number),
];

/// The first words of fields.
pub(super) const ROOTS: &[&str] = &["action", "principal", "resource", "context"];

/// The field with this name.
pub(super) fn field(name: &str) -> Option<FieldKind> {
    FIELDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}

/// A question while one condition is evaluated.
pub(super) struct QuestionVariables<'q> {
    question: &'q PolicyQuestion<'q>,
    /// Made when the condition first reads them.
    arguments: OnceLock<Option<Box<dyn Val>>>,
}

impl<'q> QuestionVariables<'q> {
    pub(super) fn new(question: &'q PolicyQuestion<'q>) -> Self {
        Self { question, arguments: OnceLock::new() }
    }
}

impl VariableResolver for QuestionVariables<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let PolicyQuestion { principal, action, resource, context } = self.question;
        Some(match variable {
            "action" => text(action.as_str()),
            "principal.identity" => text(&principal.identity),
            "principal.role" => text(principal.role),
            "principal.groups" => texts(&principal.groups),
            "principal.tenant" => text(&principal.tenant),
            "principal.scopes" => texts(&principal.scopes),
            "principal.client" => text(&principal.client),
            "principal.issuer" => text(&principal.issuer),
            "principal.authTime" => CowVal::owned(CelInt::from(principal.auth_time)),
            "resource.server" => text(resource.server),
            "resource.name" => text(resource.name),
            "resource.tags" => texts(resource.tags),
            "resource.hints.readOnly" => CowVal::owned(CelBool::from(resource.hints.is_read_only)),
            "resource.hints.idempotent" => CowVal::owned(CelBool::from(resource.hints.is_idempotent)),
            "resource.pinned" => CowVal::owned(CelBool::from(resource.is_pinned)),
            "context.arguments" => {
                let made = self.arguments.get_or_init(|| match context.arguments {
                    CallArguments::Known(value) => Some(converted(value)),
                    _ => None,
                });
                CowVal::Borrowed(made.as_deref()?)
            }
            "context.truncated" => CowVal::owned(CelBool::from(context.arguments.is_truncated())),
            "context.face" => text(context.face),
            "context.era" => text(context.era),
            "context.address" => {
                let address = context.address.map(|address| address.to_canonical().to_string()).unwrap_or_default();
                CowVal::owned(CelString::from(address))
            }
            "context.now" => CowVal::owned(CelInt::from(context.now)),
            _ => return None,
        })
    }
}

fn text<'b>(text: &'b str) -> CowVal<'b, 'b> {
    CowVal::owned(CelString::from(text))
}

fn texts<'b>(texts: &'b [String]) -> CowVal<'b, 'b> {
    let values: Vec<Box<dyn Val + 'b>> =
        texts.iter().map(|text| Box::new(CelString::from(text.as_str())) as Box<dyn Val + 'b>).collect();
    CowVal::owned(CelList::from(values))
}

fn converted(value: &Value) -> Box<dyn Val> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(value) => Box::new(CelBool::from(*value)),
        Value::String(value) => Box::new(CelString::from(value.clone())),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Box::new(CelInt::from(value)),
            (None, Some(value)) => Box::new(CelUInt::from(value)),
            (None, None) => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        },
        Value::Array(items) => Box::new(CelList::from(items.iter().map(converted).collect::<Vec<_>>())),
        Value::Object(members) => {
            let key = |key: &String| CelMapKey::String(CelString::from(key.clone()));
            let members = members.iter().map(|(name, value)| (key(name), converted(value)));
            Box::new(CelMap::from(members.collect::<HashMap<_, _>>()))
        }
    }
}
