//! Golden files of the era translation, each message compared with the official schema of its revision.

use serde_json::{Map, Value};
use tsugi_protocol::mcp::{Era, ProtocolVersion};

use crate::era_action::{ACTIONS, Action, Audience};
use crate::golden;
use crate::official_schema::OfficialSchemas;

/// Runs one golden file. A case names what is done with its input, and under `valid` the definition that the
/// outcome must satisfy in the official schema.
fn check(file: &str) {
    let mut schemas = OfficialSchemas::find();
    golden::check(&format!("era/{file}"), |case| run(case, schemas.as_mut()));
}

fn run(case: &Value, mut schemas: Option<&mut OfficialSchemas>) -> Value {
    let name = case["case"].as_str().expect("a case has a name");
    let wanted = case["do"].as_str().expect("a case says what is done");
    let (_, audience, action) =
        ACTIONS.iter().find(|(known, ..)| *known == wanted).unwrap_or_else(|| panic!("{name}: unknown: {wanted}"));
    let outcomes = outcomes(*audience, *action, &case["input"]);
    if let Some(schemas) = schemas.as_mut() {
        outcomes.iter().for_each(|(version, outcome)| validate(schemas, case, *version, outcome));
    }
    match audience {
        Audience::Modern | Audience::Nobody => outcomes[0].1.clone(),
        Audience::Legacy | Audience::All => grouped(outcomes),
    }
}

fn outcomes(audience: Audience, action: Action, input: &Value) -> Vec<(ProtocolVersion, Value)> {
    let is_for = |version: &ProtocolVersion| match audience {
        Audience::Modern | Audience::Nobody => *version == ProtocolVersion::LATEST,
        Audience::Legacy => version.era() == Era::Legacy,
        Audience::All => true,
    };
    ProtocolVersion::ALL.into_iter().filter(is_for).map(|version| (version, action(input, version))).collect()
}

/// What revisions give, those with the same outcome together.
fn grouped(outcomes: Vec<(ProtocolVersion, Value)>) -> Value {
    let mut groups: Vec<(String, Value)> = Vec::new();
    for (version, outcome) in outcomes {
        match groups.iter_mut().find(|(_, known)| *known == outcome) {
            Some((versions, _)) => versions.push_str(&format!(", {version}")),
            None => groups.push((version.to_string(), outcome)),
        }
    }
    Value::Object(groups.into_iter().collect::<Map<_, _>>())
}

fn validate(schemas: &mut OfficialSchemas, case: &Value, version: ProtocolVersion, outcome: &Value) {
    let Some(definition) = case["valid"].as_str() else { return };
    let is_refusal = outcome.get("error").is_some() && outcome.get("jsonrpc").is_none();
    if outcome.is_null() || is_refusal {
        return;
    }
    // Nobody of these revisions ever asked for such an answer.
    if definition == "ElicitResult" && version < ProtocolVersion::V2025_06_18 {
        return;
    }
    let context = case["case"].as_str().unwrap_or_default();
    schemas.check(version, since(definition, version), outcome, context);
}

/// Definitions that have another name in earlier revisions.
fn since(definition: &str, version: ProtocolVersion) -> &str {
    match definition {
        "JSONRPCErrorResponse" if version < ProtocolVersion::V2025_11_25 => "JSONRPCError",
        other => other,
    }
}

macro_rules! golden_files {
    ($($name:ident: $file:literal,)*) => {
        $(#[test]
        fn $name() {
            check($file);
        })*
    };
}

golden_files! {
    requests_reach_servers_of_the_other_era: "request.json",
    results_reach_clients_of_the_other_era: "result.json",
    errors_keep_their_meaning_in_the_other_era: "error.json",
    what_a_server_announces_reaches_clients_of_the_other_era: "change.json",
    questions_reach_clients_of_the_other_era: "question.json",
    answers_reach_servers_of_the_other_era: "answer.json",
    each_era_opens_in_its_own_way: "session.json",
    the_era_of_a_server_is_read_from_its_first_answer: "detect.json",
}
