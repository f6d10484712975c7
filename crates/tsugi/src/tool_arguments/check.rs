//! Checks arguments against the tool's schema before anything is sent, and names them as the user wrote them.

use serde_json::Value;
use tsugi_schema::validate::{SchemaViolation, ValidationLimits, Validator};

use crate::failure::UsageError;

/// Every violation. A schema that cannot be compiled, or whose check would take too long, is left to the server.
pub(super) fn check(schema: &Value, given: &Value) -> Result<(), Vec<UsageError>> {
    let validator = match Validator::compile(schema, ValidationLimits::default()) {
        Ok(validator) => validator,
        Err(error) => {
            tracing::debug!(%error, "the tool's schema cannot be used to check its arguments");
            return Ok(());
        }
    };
    match validator.validate(given) {
        Err(faults) if !faults.is_undecided => Err(faults.list.iter().map(misfit).collect()),
        _ => Ok(()),
    }
}

fn misfit(fault: &SchemaViolation) -> UsageError {
    let name = fault.instance.as_str().trim_start_matches('/').replace('/', ".").replace("~1", "/").replace("~0", "~");
    if name.is_empty() {
        UsageError::new(&fault.message)
    } else {
        UsageError::new(format!("`{name}`: {}", fault.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn messages(schema: Value, given: Value) -> Vec<String> {
        check(&schema, &given).err().unwrap_or_default().into_iter().map(|misfit| misfit.message).collect()
    }

    #[test]
    fn faults_are_named_as_the_user_wrote_them() {
        let schema = json!({"properties": {"a": {"properties": {"b": {"minimum": 1}}}}});
        let messages = messages(schema, json!({"a": {"b": 0}}));
        assert!(messages.len() == 1 && messages[0].starts_with("`a.b`: "), "{messages:?}");
    }

    #[test]
    fn a_schema_that_cannot_be_used_checks_nothing() {
        assert!(messages(json!({"type": 7}), json!({"a": 1})).is_empty());
        assert!(messages(json!({"$ref": "https://example.com/x"}), json!({"a": 1})).is_empty());
    }
}
