//! Properties of all names, arguments and schemas.

use proptest::prelude::*;
use serde_json::{Value, json};
use tsugi_schema::dialect::{SchemaDialect, convert_tool};
use tsugi_schema::header_param::{HeaderParams, decode, encode_text};
use tsugi_schema::tool_name::{NameMap, ToolNaming, ToolTarget, is_safe};
use tsugi_schema::validate::{ValidationLimits, Validator};

use crate::generate::{any_json, any_schema, object, pair};
use crate::rules;

fn name_part() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c_]{0,3}", "[a-z._/ -]{0,12}", ".{0,8}", "[a-z]{50,80}"]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_tool_has_one_safe_name_that_leads_back_to_it(
        pairs in prop::collection::vec((name_part(), name_part()), 0..20),
        naming in prop::sample::select(vec![ToolNaming::Prefix, ToolNaming::PrefixOnConflict, ToolNaming::Bare]),
    ) {
        let targets: std::collections::BTreeSet<ToolTarget> =
            pairs.iter().map(|(server, tool)| ToolTarget::new(server.as_str(), tool.as_str())).collect();
        let map = NameMap::build(targets.iter().cloned(), naming);
        prop_assert_eq!(map.len(), targets.len());
        for target in &targets {
            let name = map.name(target).unwrap();
            prop_assert!(is_safe(name), "{}", name);
            prop_assert_eq!(map.target(name), Some(target));
        }
        let reversed = NameMap::build(targets.iter().rev().cloned(), naming);
        prop_assert_eq!(map, reversed);
    }

    #[test]
    fn header_text_comes_back_and_is_always_a_legal_header(text in any::<String>()) {
        let header = encode_text(&text);
        prop_assert!(header.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')));
        prop_assert_eq!(header.trim(), header.as_str());
        prop_assert_eq!(decode(header.as_bytes()), Ok(text));
    }

    #[test]
    fn a_header_we_send_is_a_header_we_accept(text in any::<String>(), number in -9_007_199_254_740_991i64..9_007_199_254_740_991, flag in any::<bool>()) {
        let schema = json!({"properties": {
            "t": {"type": "string", "x-mcp-header": "T"},
            "n": {"type": "integer", "x-mcp-header": "N"},
            "f": {"type": "boolean", "x-mcp-header": "F"},
            "absent": {"type": "string", "x-mcp-header": "A"}
        }});
        let params = HeaderParams::of(&schema).unwrap();
        let arguments = json!({"t": text, "n": number, "f": flag, "absent": null});
        prop_assert_eq!(params.headers(&arguments).unwrap().len(), 3);
        for param in params.iter() {
            let header = param.encode(&arguments).unwrap();
            let received = header.as_deref().map(str::as_bytes);
            prop_assert_eq!(param.compare(received, &arguments), Ok(()));
        }
    }

    #[test]
    fn arguments_come_back_through_every_dialect((schema, arguments) in object(pair())) {
        let validator = Validator::compile(&schema, ValidationLimits::default()).unwrap();
        prop_assert!(validator.validate(&arguments).is_ok());
        for dialect in SchemaDialect::ALL {
            let converted = convert_tool("tool", "", &schema, dialect);
            let shown = converted.plan.show(arguments.clone());
            let back = converted.plan.restore(shown.clone());
            prop_assert_eq!(&back, &arguments, "{} showed {}", dialect.name(), shown);
        }
    }

    #[test]
    fn converted_schemas_keep_the_rules_of_their_dialect((schema, _) in object(pair()), name in ".{0,90}") {
        for dialect in SchemaDialect::ALL {
            let converted = convert_tool(&name, "What it does.", &schema, dialect);
            prop_assert_eq!(rules::broken(dialect, &converted.declaration), Vec::<String>::new());
        }
    }

    #[test]
    fn whatever_comes_as_a_schema_the_result_keeps_the_rules(schema in any_schema()) {
        for dialect in SchemaDialect::ALL {
            let converted = convert_tool("tool", "", &schema, dialect);
            let broken = rules::broken(dialect, &converted.declaration);
            prop_assert_eq!(broken, Vec::<String>::new(), "{} made {}", dialect.name(), converted.declaration);
        }
    }

    #[test]
    fn no_json_makes_anything_panic(schema in prop_oneof![any_schema(), any_json()], value in any_json()) {
        for dialect in SchemaDialect::ALL {
            let converted = convert_tool("tool", "", &schema, dialect);
            let _ = converted.plan.restore(value.clone());
            let _ = converted.plan.show(value.clone());
        }
        let _ = HeaderParams::of(&schema);
        if let Ok(validator) = Validator::compile(&schema, ValidationLimits::default()) {
            let _ = validator.validate(&value);
        }
    }

    #[test]
    fn a_fault_points_into_the_value_and_stays_short((schema, _) in object(pair()), value in any_json()) {
        let validator = Validator::compile(&schema, ValidationLimits::default()).unwrap();
        if let Err(faults) = validator.validate(&value) {
            prop_assert!(!faults.list.is_empty() && faults.list.len() <= 10);
            for fault in &faults.list {
                let found: Option<&Value> = fault.instance.find(&value);
                prop_assert!(found.is_some(), "{}", fault);
                prop_assert!(fault.message.len() < 1500);
            }
        }
    }

    #[test]
    fn the_first_look_accepts_nothing_that_the_whole_check_refuses(
        schema in any_schema(), (plain, fitting) in object(pair()), (_, value) in object(pair()), any in any_json(),
    ) {
        for schema in [schema, plain] {
            let Ok(validator) = Validator::compile(&schema, ValidationLimits::default()) else { continue };
            for value in [&fitting, &value, &any] {
                if validator.accepts(value.to_string().as_bytes()) {
                    prop_assert!(validator.validate(value).is_ok(), "{} {}", schema, value);
                }
            }
        }
    }
}
