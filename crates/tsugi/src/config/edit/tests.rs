//! Edited files against what a careful person would have written.

use std::path::Path;

use super::*;
use serde_json::json;

fn document(name: &str, text: &str) -> ConfigDocument {
    ConfigDocument::parse(Path::new(name), text.to_owned(), DocumentFormat::of(Path::new(name))).unwrap()
}

fn new(name: &str) -> NewServer {
    let fields = json!({"command": "npx", "args": ["-y", "@scope/x"], "env": {"A": "1"}});
    NewServer { name: name.into(), fields: fields.as_object().unwrap().clone() }
}

fn check_add(file: &str, before: &str, after: &str) {
    assert_eq!(add(&document(file, before), &new("new")).unwrap(), after);
}

fn check_remove(file: &str, name: &str, before: &str, after: &str) {
    assert_eq!(remove(&document(file, before), name).unwrap(), after);
}

const ITEM: &str = "  - name: new\n    command: npx\n    args: [\"-y\", \"@scope/x\"]\n    env:\n      A: \"1\"\n";

#[test]
fn a_server_is_added_after_the_last_one_and_every_comment_stays() {
    let before = "# ours\nservers:\n  # first\n  - name: a # good\n    command: x\n\n  - name: b\n    url: http://b/\n    # its end\n\n# options\noptions: {timeout: 5s}\n";
    let after = format!(
        "# ours\nservers:\n  # first\n  - name: a # good\n    command: x\n\n  - name: b\n    url: http://b/\n{ITEM}    # its end\n\n# options\noptions: {{timeout: 5s}}\n"
    );
    check_add("t.yaml", before, &after);
}

#[test]
fn a_server_is_added_in_the_form_that_the_file_has() {
    check_add("t.yaml", "options: {timeout: 5s}", &format!("options: {{timeout: 5s}}\nservers:\n{ITEM}"));
    check_add("t.yaml", "servers:\noptions: {timeout: 5s}\n", &format!("servers:\n{ITEM}options: {{timeout: 5s}}\n"));
    let map = "mcpServers:\n  a:\n    command: x\n  new:\n    command: npx\n    args: [\"-y\", \"@scope/x\"]\n    env:\n      A: \"1\"\n";
    check_add("t.yaml", "mcpServers:\n  a:\n    command: x\n", map);
    let flow = "{\"name\":\"new\",\"command\":\"npx\",\"args\":[\"-y\",\"@scope/x\"],\"env\":{\"A\":\"1\"}}";
    check_add("t.yaml", "servers: [{name: a, command: x}]\n", &format!("servers: [{{name: a, command: x}}, {flow}]\n"));
    check_add("t.yaml", "servers: []\n", &format!("servers: [{flow}]\n"));
    let json = "{\n  \"servers\": [\n    // one\n    {\"name\": \"a\", \"command\": \"x\"}, // end\n  ]\n}\n";
    check_add("t.json", json, &json.replace("\"x\"}", &format!("\"x\"}},\n    {flow}")));
}

#[test]
fn a_server_is_removed_with_the_comment_above_it_and_nothing_else() {
    let before = "servers:\n  # first\n  - name: a\n    command: x\n\n  # second\n  # of two\n  - name: b\n    url: http://b/\n\n# end\n";
    check_remove("t.yaml", "b", before, "servers:\n  # first\n  - name: a\n    command: x\n\n# end\n");
    check_remove(
        "t.yaml",
        "a",
        before,
        "servers:\n\n  # second\n  # of two\n  - name: b\n    url: http://b/\n\n# end\n",
    );
    check_remove(
        "t.yaml",
        "a",
        "servers:\n  - name: a\n    command: x\noptions: {timeout: 5s}\n",
        "servers: []\noptions: {timeout: 5s}\n",
    );
    check_remove(
        "t.yaml",
        "a",
        "mcpServers:\n  a:\n    command: x\n  b: {command: y}\n",
        "mcpServers:\n  b: {command: y}\n",
    );
    check_remove(
        "t.json",
        "b",
        "{\"servers\": [{\"name\": \"a\", \"command\": \"x\"}, {\"name\": \"b\", \"command\": \"y\"}]}",
        "{\"servers\": [{\"name\": \"a\", \"command\": \"x\"}]}",
    );
}

#[test]
fn a_name_that_is_taken_or_missing_is_refused_with_what_to_do() {
    let one = document("t.yaml", "servers:\n  - name: new\n    command: x\n");
    let taken = add(&one, &new("new")).unwrap_err().to_string();
    assert!(taken.contains("there is a server `new` already") && taken.contains("tsugi remove"), "{taken}");
    let missing = remove(&one, "neww").unwrap_err().to_string();
    assert!(missing.contains("no server `neww`") && missing.contains("did you mean `new`?"), "{missing}");
}

#[test]
fn what_cannot_be_edited_safely_is_left_alone_and_said() {
    let literal = document(
        "t.yaml",
        "servers:\n  - name: x\n    command: y\n    description: |\n      text\n      # looks like a comment\n",
    );
    let refused = add(&literal, &new("new"));
    // Either every word is kept, or nothing is written.
    match refused {
        Ok(text) => assert!(text.contains("# looks like a comment\n  - name: new"), "{text}"),
        Err(problems) => assert!(problems.to_string().contains("by hand"), "{problems}"),
    }
}

#[test]
fn a_new_file_can_be_read() {
    let document = document("tsugi.yaml", &create(&new("new")));
    assert_eq!(names(servers(&document).map(|entry| &entry.node)), ["new"]);
}

#[test]
fn a_variable_is_passed_on_where_it_belongs() {
    let check = |before: &str, after: &str| {
        assert_eq!(pass_variable(&document("t.yaml", before), "a", "KEY").unwrap(), after);
    };
    check(
        "servers:\n  - name: a\n    command: x\n  # b\n  - name: b\n    command: y\n",
        "servers:\n  - name: a\n    command: x\n    env:\n      KEY: \"${KEY}\"\n  # b\n  - name: b\n    command: y\n",
    );
    check(
        "servers:\n  a:\n    env:\n      OLD: x # why\n    command: x\n",
        "servers:\n  a:\n    env:\n      OLD: x # why\n      KEY: \"${KEY}\"\n    command: x\n",
    );
    let braces = document("t.yaml", "servers:\n  - name: a\n    command: x\n    env: {OLD: x}\n");
    assert!(pass_variable(&braces, "a", "KEY").is_err());
}
