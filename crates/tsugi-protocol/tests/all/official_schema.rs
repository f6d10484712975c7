//! The official schemas of every revision, where they lie beside the checkout.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;

use jsonschema::Validator;
use serde_json::{Value, json};
use tsugi_protocol::mcp::ProtocolVersion;

/// Validators by revision and definition, made when first asked for.
pub(crate) struct OfficialSchemas {
    folder: PathBuf,
    validators: HashMap<(ProtocolVersion, String), Validator>,
}

impl OfficialSchemas {
    /// The schemas; `None`, and a line that says so, when they are not there.
    pub(crate) fn find() -> Option<Self> {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/mcp-schema");
        if !folder.is_dir() {
            println!(
                "skipped: messages are not compared with the official schemas, which do not lie at ../shared/mcp-schema"
            );
            return None;
        }
        Some(Self { folder, validators: HashMap::new() })
    }

    /// Panics unless `value` is what the revision's definition says.
    pub(crate) fn check(&mut self, version: ProtocolVersion, definition: &str, value: &Value, context: &str) {
        let folder = &self.folder;
        let key = (version, definition.to_owned());
        let validator = self.validators.entry(key).or_insert_with(|| validator(folder, version, definition));
        let faults: Vec<String> =
            validator.iter_errors(value).map(|fault| format!("{} at {}", fault, fault.instance_path())).collect();
        assert!(faults.is_empty(), "{context}: not a {definition} of {version}: {faults:#?}\n{value:#}");
    }
}

fn validator(folder: &std::path::Path, version: ProtocolVersion, definition: &str) -> Validator {
    let text =
        std::fs::read_to_string(folder.join(version.as_str()).join("schema.json")).expect("a schema is readable");
    let mut schema: Value = serde_json::from_str(&text).expect("a schema is JSON");
    let place = if schema.get("$defs").is_some() { "$defs" } else { "definitions" };
    assert!(schema[place].get(definition).is_some(), "{version} defines no {definition}");
    schema["$ref"] = json!(format!("#/{place}/{definition}"));
    jsonschema::validator_for(&schema).expect("an official schema is a schema")
}

#[test]
fn the_check_can_fail() {
    let Some(mut schemas) = OfficialSchemas::find() else { return };
    schemas.check(
        ProtocolVersion::V2026_07_28,
        "CallToolResult",
        &json!({"resultType": "complete", "content": []}),
        "good",
    );
    let bad = std::panic::catch_unwind(AssertUnwindSafe(|| {
        schemas.check(ProtocolVersion::V2026_07_28, "CallToolResult", &json!({"content": []}), "bad");
    }));
    assert!(bad.is_err());
}
