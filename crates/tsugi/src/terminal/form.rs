//! The form for a schema: each property as a choice, a multiple choice, yes or no, or text.

use serde_json::Value;
use tsugi_schema::validate::{ValidationLimits, Validator};

use super::format::lacking;
use crate::tool_arguments::{ArgumentShape, ValueChoice, ValueKind, typed_value};

/// The fields of an object.
#[derive(Debug, PartialEq)]
pub(crate) struct QuestionForm {
    pub(crate) fields: Vec<FormField>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FormField {
    pub(crate) name: String,
    pub(crate) shape: ArgumentShape,
    pub(crate) is_required: bool,
}

/// How a field is asked.
#[derive(Debug, PartialEq)]
pub(crate) enum FieldInput {
    /// One of these.
    Choose(Vec<ValueChoice>),
    /// Any of these.
    ChooseSome(Vec<ValueChoice>),
    /// Yes or no.
    Confirm,
    /// Typed.
    Type,
}

impl QuestionForm {
    /// The form of a schema.
    pub(crate) fn of(schema: &Value) -> Self {
        let shape = ArgumentShape::of(schema);
        let required: Vec<String> = shape.required().map(str::to_owned).collect();
        let field = |name: String| FormField {
            shape: shape.property(&name).unwrap_or_default(),
            is_required: required.contains(&name),
            name,
        };
        QuestionForm { fields: shape.names().into_iter().map(field).collect() }
    }
}

impl FormField {
    /// How to ask for it.
    pub(crate) fn way(&self) -> FieldInput {
        let choices = self.shape.choices();
        let some = self.shape.items().choices();
        match self.shape.kinds().as_slice() {
            _ if !choices.is_empty() => FieldInput::Choose(choices),
            [ValueKind::Array] if !some.is_empty() => FieldInput::ChooseSome(some),
            [ValueKind::Boolean] => FieldInput::Confirm,
            _ => FieldInput::Type,
        }
    }

    /// What to show before the cursor: the title or name, what it is, and what it takes.
    pub(crate) fn label(&self) -> String {
        let mut label = self.shape.title().unwrap_or_else(|| self.name.clone());
        if let Some(description) = self.shape.description() {
            label.push_str(&format!(" ({description})"));
        }
        if self.way() == FieldInput::Type && !self.shape.is_text() {
            label.push_str(&format!(" [{}]", self.shape.describe()));
        }
        if !self.is_required {
            label.push_str(" (optional)");
        }
        crate::output::printable(&label).replace('\n', " ")
    }

    /// Reads what was typed; the reason where it does not fit.
    pub(crate) fn read(&self, text: &str) -> Result<Value, String> {
        let value = typed_value(&self.name, text, &self.shape).map_err(|misfit| misfit.message)?.to_value();
        self.check(&value).map(|()| value)
    }

    /// Checks a value against the whole schema.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        let Ok(validator) = Validator::compile(&self.shape.to_schema(), ValidationLimits::default()) else {
            return Ok(());
        };
        validator.validate(value).map_err(|faults| format!("it {faults}"))?;
        let format = self.shape.format().zip(value.as_str()).and_then(|(format, text)| lacking(format, text));
        format.map_or(Ok(()), |wanted| Err(format!("`{}` must be {wanted}", self.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn field(property: Value) -> FormField {
        QuestionForm::of(&json!({"type": "object", "properties": {"x": property}, "required": ["x"]})).fields.remove(0)
    }

    #[test]
    fn fields_are_asked_in_the_order_of_the_schema() {
        let form = QuestionForm::of(&json!({"properties": {"b": {"type": "string"}, "a": {}}, "required": ["a"]}));
        let shown: Vec<(&str, bool)> =
            form.fields.iter().map(|field| (field.name.as_str(), field.is_required)).collect();
        assert_eq!(shown, [("b", false), ("a", true)]);
    }

    #[test]
    fn each_kind_of_field_has_its_way() {
        assert_eq!(field(json!({"type": "boolean"})).way(), FieldInput::Confirm);
        assert_eq!(field(json!({"type": "string"})).way(), FieldInput::Type);
        assert!(matches!(field(json!({"type": "string", "enum": ["a"]})).way(), FieldInput::Choose(_)));
        let several = json!({"type": "array", "items": {"anyOf": [{"const": "r", "title": "Red"}]}});
        assert!(matches!(field(several).way(), FieldInput::ChooseSome(choices) if choices[0].title == "Red"));
    }

    #[test]
    fn what_is_typed_is_checked_against_the_whole_schema() {
        let field = field(json!({"type": "integer", "minimum": 1, "maximum": 9}));
        assert_eq!(field.read("5"), Ok(json!(5)));
        assert!(field.read("ten").unwrap_err().contains("must be an integer"));
        assert!(field.read("10").unwrap_err().starts_with("it "));
    }

    #[test]
    fn what_is_typed_must_have_the_format_that_the_schema_names() {
        let field = field(json!({"type": "string", "format": "email"}));
        assert_eq!(field.read("ann@example.com"), Ok(json!("ann@example.com")));
        assert_eq!(field.read("ann"), Err("`x` must be an email address such as ann@example.com".to_owned()));
    }

    #[test]
    fn a_label_says_what_it_is_and_what_it_takes() {
        let field = field(json!({"type": "number", "title": "Height", "description": "in\nmeters"}));
        assert_eq!(field.label(), "Height (in meters) [number]");
    }
}
