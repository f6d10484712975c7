//! Exchanges with members that no revision defines, wherever JSON has room for one.

use proptest::collection::vec;
use proptest::prelude::*;

/// A request, what is noted on the way, how it ends, and the tool that the server offers; all as written members.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    pub(super) method: &'static str,
    pub(super) params: Vec<String>,
    pub(super) meta: Vec<String>,
    pub(super) notes: Vec<Vec<String>>,
    pub(super) ending: Ending,
    pub(super) tool: Vec<String>,
}

/// How a call ends.
#[derive(Debug, Clone)]
pub(super) enum Ending {
    Result(Vec<String>),
    Error(Vec<String>),
}

/// JSON text as no serialiser writes it: odd numbers, escapes, white space inside.
fn json_text() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "0",
        "-0",
        "1.50",
        "1e3",
        "12345678901234567890123",
        "true",
        "null",
        r#""""#,
        r#""\u0041\n\"\\\/""#,
        r#""日本""#,
        "\"},{\"",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(3, 12, 3, |inner| {
        let array = vec(inner.clone(), 0..3).prop_map(|items| format!("[ {} ]", items.join(" ,")));
        let object = vec(inner, 0..3).prop_map(|values| {
            object_text(values.iter().enumerate().map(|(index, value)| format!("\"k{index}\" : {value}")).collect())
        });
        prop_oneof![array, object]
    })
}

/// Up to three members that nobody knows, with keys that begin like this.
fn unknown(prefix: &'static str) -> impl Strategy<Value = Vec<String>> {
    vec(json_text(), 0..4).prop_map(move |values| {
        let keys = ["", "é", " space"];
        values.iter().zip(keys).map(|(value, key)| format!("\"{prefix}{key}\":{value}")).collect()
    })
}

/// An object of these members, in this order.
pub(super) fn object_text(members: Vec<String>) -> String {
    format!("{{{}}}", members.join(","))
}

/// Unknown members around known ones.
fn around(before: &'static str, known: String, after: &'static str) -> impl Strategy<Value = Vec<String>> {
    (unknown(before), unknown(after)).prop_map(move |(mut members, rest)| {
        members.push(known.clone());
        members.extend(rest);
        members
    })
}

/// The methods whose parameters and results have room for anything, with the parameters that they need.
fn request() -> impl Strategy<Value = (&'static str, Vec<String>)> {
    let known = prop::sample::select(vec![
        ("tools/call", r#""name":"tool""#),
        ("prompts/get", r#""name":"prompt""#),
        ("resources/read", r#""uri":"mirror://thing""#),
        (
            "completion/complete",
            r#""ref":{"type":"ref/prompt","name":"p","x-ref":1.0},"argument":{"name":"a","value":""}"#,
        ),
        ("x-vendor/anything", r#""thing":1.0"#),
    ]);
    (known, unknown("x-argument")).prop_flat_map(|((method, known), arguments)| {
        let known = match method {
            "tools/call" => format!("{known},\"arguments\":{}", object_text(arguments)),
            _ => known.to_owned(),
        };
        // Members are compared one by one, so several known ones are written as one.
        (Just(method), around("x-param", known, "y-param").prop_map(split))
    })
}

/// A member that stands for several is taken apart again.
fn split(members: Vec<String>) -> Vec<String> {
    let object = super::object(&object_text(members));
    super::members_but(&object, &[])
}

fn result() -> impl Strategy<Value = Ending> {
    let content =
        (unknown("x-text"), unknown("x-block"), unknown("x-annotation")).prop_map(|(text, block, annotation)| {
            let annotations = format!("\"annotations\":{}", object_text(annotation));
            let known = [r#""type":"text""#.to_owned(), r#""text":"said""#.to_owned(), annotations];
            let text = object_text(known.into_iter().chain(text).collect());
            let block = object_text(std::iter::once(r#""type":"x-hologram""#.to_owned()).chain(block).collect());
            format!("\"content\":[{text}, {block}]")
        });
    (content, unknown("x-meta"), unknown("x-result")).prop_flat_map(|(content, meta, result)| {
        let known = format!("{content},\"_meta\":{}", object_text(meta));
        around("y-result", known, "z-result").prop_map(move |mut members| {
            members.extend(result.clone());
            Ending::Result(split(members))
        })
    })
}

fn error() -> impl Strategy<Value = Ending> {
    (json_text(), unknown("x-error")).prop_map(|(data, rest)| {
        let known = ["\"code\":-31999".to_owned(), "\"message\":\"no\"".to_owned(), format!("\"data\":{data}")];
        Ending::Error(known.into_iter().chain(rest).collect())
    })
}

fn tool() -> impl Strategy<Value = Vec<String>> {
    let known = r#""name":"tool","inputSchema":{"type":"object","x-schema":1.50},"annotations":{"x-hint":1e3}"#;
    around("x-tool", known.to_owned(), "y-tool").prop_map(split)
}

/// Progress, which every caller in these tests wants.
fn notes() -> impl Strategy<Value = Vec<Vec<String>>> {
    let note = around("x-note", "\"progress\":1".to_owned(), "y-note");
    vec(note, 0..3).prop_map(|notes| {
        let numbered = notes.into_iter().enumerate().map(|(index, members)| {
            let progress = format!("\"progress\":{}", index + 1);
            members
                .into_iter()
                .map(|member| if member == "\"progress\":1" { progress.clone() } else { member })
                .collect()
        });
        numbered.collect()
    })
}

/// A whole exchange.
pub(super) fn exchange() -> impl Strategy<Value = Exchange> {
    let ending = prop_oneof![3 => result(), 1 => error()];
    (request(), unknown("x-about"), notes(), ending, tool()).prop_map(
        |((method, params), meta, notes, ending, tool)| Exchange { method, params, meta, notes, ending, tool },
    )
}
