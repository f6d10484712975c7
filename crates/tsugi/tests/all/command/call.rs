//! One tool, called: what reaches the server, what is printed, and with which code it ends.

use serde_json::{Value, json};
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::Scripted;

use super::world::{Ran, World, entry, golden};

/// A tool whose schema has a bit of everything; it echoes its arguments.
fn order() -> Value {
    json!({
        "name": "order",
        "description": "Order something.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "item": {"type": "string", "description": "What to order"},
                "count": {"type": "integer", "minimum": 1, "maximum": 9},
                "price": {"type": "number"},
                "gift": {"type": "boolean"},
                "size": {"enum": ["small", "large"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "address": {"$ref": "#/$defs/address"},
            },
            "required": ["item", "count"],
            "$defs": {"address": {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}}}},
        },
    })
}

fn shop() -> (Scripted, World) {
    let scripted = Scripted::new(Script { tools: vec![order()], ..Script::modern() });
    let world = World::with_servers(json!([entry("shop", &scripted)]));
    (scripted, world)
}

/// The arguments that the server received in its only call.
fn received(scripted: &Scripted) -> Value {
    let calls = scripted.journal().received("tools/call");
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls[0]["params"]["arguments"].clone()
}

#[test]
fn words_reach_the_server_as_its_schema_wants_them() {
    let (scripted, world) = shop();
    let words = [
        "call",
        "shop/order",
        "item=42",
        "count=3",
        "price=1.50",
        "gift=yes",
        "size=large",
        "tags=a",
        "tags=b",
        "address.city=大津",
        "address.zip=520",
    ];
    world.run(&words).expect(0);
    let expected = json!({
        "item": "42", "count": 3, "price": 1.5, "gift": true, "size": "large", "tags": ["a", "b"],
        "address": {"city": "大津", "zip": 520},
    });
    assert_eq!(received(&scripted), expected);
}

#[test]
fn json_and_stdin_and_words_can_be_mixed() {
    let (scripted, world) = shop();
    world
        .run_reading(r#"{"count": 2}"#, &["call", "order", "--json", r#"{"item":"tea","gift":true}"#, "-", "gift=no"])
        .expect(0);
    assert_eq!(received(&scripted), json!({"item": "tea", "count": 2, "gift": false}));
}

fn refused(words: &[&str], name: &str) {
    let (scripted, world) = shop();
    let ran = world.run(words).expect(2);
    assert_eq!(ran.stdout, "");
    assert!(scripted.journal().received("tools/call").is_empty(), "nothing may be sent");
    golden().check(&format!("refused/{name}.txt"), &ran.stderr);
}

#[test]
fn what_cannot_be_sent_is_explained_and_not_sent() {
    refused(&["call", "shop/order"], "missing");
    refused(&["call", "shop/order", "item=x"], "missing-one");
    refused(&["call", "shop/order", "itm=x", "count=1"], "unknown-key");
    refused(&["call", "shop/order", "item=x", "count=many"], "wrong-kind");
    refused(&["call", "shop/order", "item=x", "count=10"], "out-of-range");
    refused(&["call", "shop/order", "item=x", "count=1", "size=huge"], "no-choice");
    refused(&["call", "shop/order", "item=x", "item=y"], "twice");
    refused(&["call", "shop/order", "tea"], "no-argument");
    refused(&["call", "shop/order", "--json", "{\"item\": "], "no-json");
    refused(&["call", "shop/ordr"], "unknown-tool");
    refused(&["call", "shpo/order"], "unknown-server-in-tool");
    refused(&["call", "order", "--server", "shpo"], "unknown-server");
}

#[test]
fn a_servers_name_alone_is_answered_with_how_its_tools_are_named() {
    let (_shop, world) = shop();
    let ran = world.run(&["call", "shop", "order"]).expect(2);
    assert!(ran.stderr.contains("`shop` is a server: name its tool too, as in `shop/"), "{}", ran.stderr);
}

#[test]
fn a_result_is_printed_as_the_server_wrote_it_and_alone_on_stdout() {
    let (_, world) = shop();
    let ran = world.run(&["call", "shop/echo", "message=plain text"]).expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("plain text\n", ""));
    assert_eq!(world.run(&["call", "shop/add", "a=1", "b=2"]).expect(0).stdout, "3\n");
    let order = world.run(&["call", "shop/order", "item=x", "count=1"]).expect(0).stdout;
    assert_eq!(order, "{\"item\":\"x\",\"count\":1}\n", "a program gets every byte as it was");
}

#[test]
fn json_prints_the_raw_result_and_nothing_else() {
    let (_, world) = shop();
    let ran = world.run(&["call", "--json", "shop/add", "a=1", "b=2"]).expect(0);
    assert_eq!(ran.json()["structuredContent"], json!({"sum": 3}));
    assert_eq!(ran.json()["resultType"], "complete");
    assert_eq!(ran.stderr, "");
    let failed = world.run(&["call", "--json", "shop/fail"]).expect(1);
    assert_eq!(failed.json()["isError"], true);
}

#[test]
fn failures_end_with_their_code_and_words_on_stderr() {
    let (_, world) = shop();
    let check = |words: &[&str], code: i32, words_of: &str| {
        let ran = world.run(words).expect(code);
        assert_eq!(ran.stdout, "");
        assert!(ran.stderr.contains(words_of), "{}", ran.stderr);
    };
    check(&["call", "shop/fail"], 1, "error: shop/fail: it failed");
    check(&["call", "shop/error"], 1, "error: shop/error: a server's own error (-32000)\n  {\"why\":[\"because\"]}");
    check(&["call", "shop/crash"], 3, "SERVER_CRASHED, it may have had an effect");
    check(&["call", "shop/sleep", "ms=60000", "--timeout", "300ms"], 4, "no sign of life within 300ms");
}

#[test]
fn a_call_that_takes_too_long_is_cancelled_at_the_server() {
    let (scripted, world) = shop();
    world.run(&["call", "shop/sleep", "ms=60000", "--timeout", "300ms"]).expect(4);
    // A read could be tried again, but whoever gave it a time did not mean several times that.
    assert_eq!((scripted.journal().received("tools/call").len(), scripted.journal().cancelled().len()), (1, 1));
}

#[test]
fn a_timeout_comes_from_the_tool_then_the_server_then_the_variable() {
    let scripted = Scripted::new(Script::modern());
    let late = |entry: Value, variables: &[(&str, &str)]| {
        let world = World::with_servers(json!([entry]));
        world.run_with(variables, &["call", "s/sleep", "ms=60000"]).expect(4).stderr
    };
    let mut server = entry("s", &scripted);
    assert!(late(server.clone(), &[("DEFAULT_TIMEOUT", "250")]).contains("within 250ms"));
    server["timeout"] = json!(350);
    assert!(late(server.clone(), &[("DEFAULT_TIMEOUT", "250")]).contains("within 350ms"));
    server["tools"] = json!({"sleep": {"timeout": "450ms"}});
    assert!(late(server, &[("DEFAULT_TIMEOUT", "250")]).contains("within 450ms"));
}

#[test]
fn log_lines_of_the_server_are_talk() {
    let (_, world) = shop();
    let told = |flags: &[&str]| {
        let words = [&["call", "shop/log", "level=info", "text=almost there"], flags].concat();
        world.run(&words).expect(0).stderr
    };
    assert_eq!(told(&[]), "info shop/log: scripted: almost there\n");
    assert_eq!(told(&["-q"]), "");
}

#[test]
fn only_the_server_that_is_named_is_started() {
    let (one, two) = (Scripted::new(Script::modern()), Scripted::new(Script::modern()));
    let world = World::with_servers(json!([entry("one", &one), entry("two", &two)]));
    for words in [["call", "two/echo", "message=x"], ["call", "two__echo", "message=x"]] {
        assert_eq!(world.run(&words).expect(0).stdout, "x\n");
    }
    world.run(&["call", "echo", "message=x", "--server", "two"]).expect(0);
    assert_eq!((one.journal().launches(), two.journal().launches()), (0, 3));
}

#[test]
fn a_tool_that_several_servers_have_must_be_named_with_its_server() {
    let (one, two) = (Scripted::new(Script::modern()), Scripted::new(Script::legacy()));
    let world = World::with_servers(json!([entry("one", &one), entry("two", &two)]));
    let Ran { stderr, .. } = world.run(&["call", "echo"]).expect(2);
    assert_eq!(
        stderr,
        "error: several servers have a tool named `echo`: one, two\nhint: name the server: `one/echo`\n"
    );
}

#[test]
fn a_tool_that_a_server_had_the_last_time_counts_although_it_is_not_up_yet() {
    let slow = json!({"start_delay_ms": 20_000});
    let (one, two) = (
        Scripted::new(Script::modern()),
        Scripted::new(Script { launches: vec![json!({}), slow], ..Script::modern() }),
    );
    let world = World::with_servers(json!([entry("one", &one), entry("two", &two)]));
    world.run(&["tools"]).expect(0);
    let Ran { stderr, .. } = world.run(&["call", "echo", "message=x"]).expect(2);
    assert!(stderr.contains("several servers have a tool named `echo`: one, two"), "{stderr}");
    assert_eq!(one.journal().received("tools/call").len(), 0);
}

#[test]
fn a_slow_server_that_never_had_the_tool_is_not_waited_for() {
    let slow = json!({"start_delay_ms": 600_000});
    let (shop, slow) = (
        Scripted::new(Script { tools: vec![order()], ..Script::modern() }),
        Scripted::new(Script { launches: vec![json!({}), slow], ..Script::modern() }),
    );
    let world = World::with_servers(json!([entry("shop", &shop), entry("slow", &slow)]));
    world.run(&["tools"]).expect(0);
    let ran = world.run(&["call", "order", "item=tea", "count=1"]).expect(0);
    assert_eq!(ran.stderr, "", "the slow server is not spoken of, since nothing was expected of it");
    assert_eq!(slow.journal().launches(), 2, "it was started, and is the one that is slow");
}

#[test]
fn a_tool_that_the_configuration_keeps_back_is_neither_listed_nor_called() {
    let scripted = Scripted::new(Script::modern());
    let mut server = entry("s", &scripted);
    server["deny"] = json!(["cou*"]);
    server["tools"] = json!({"echo": {"hidden": true}});
    let world = World::with_servers(json!([server]));
    let listed = world.run(&["tools"]).expect(0).stdout;
    assert!(!listed.contains(" count ") && !listed.contains(" echo ") && listed.contains(" add "), "{listed}");
    world.run(&["call", "s/count"]).expect(5);
    world.run(&["call", "s/echo", "message=x"]).expect(5);
    assert_eq!(scripted.journal().effects("count"), 0);
}

#[test]
fn a_tool_is_listed_and_called_under_the_name_and_words_of_the_configuration() {
    let (one, two) = (Scripted::new(Script::modern()), Scripted::new(Script::legacy()));
    let mut renaming = entry("one", &one);
    renaming["tools"] = json!({"echo": {"rename": "parrot", "description": "Says it again"}});
    let world = World::with_servers(json!([renaming, entry("two", &two)]));
    let listed = world.run(&["tools", "--json"]).expect(0).json();
    let tools = listed["tools"].as_array().unwrap();
    let parrot = tools.iter().find(|tool| tool["name"] == "parrot").expect("it is listed");
    assert_eq!((&parrot["server"], &parrot["description"]), (&json!("one"), &json!("Says it again")));
    for words in
        [["call", "parrot", "message=x"], ["call", "one__parrot", "message=x"], ["call", "one/echo", "message=x"]]
    {
        assert_eq!(world.run(&words).expect(0).stdout, "x\n", "{words:?}");
    }
    // With another name for the one, the other is the only one of its name.
    assert_eq!(world.run(&["call", "echo", "message=y"]).expect(0).stdout, "y\n");
    assert_eq!((one.journal().received("tools/call").len(), two.journal().received("tools/call").len()), (3, 1));
    let calls =
        r#"[{"tool": "parrot", "arguments": {"message": "z"}}, {"tool": "echo", "arguments": {"message": "w"}}]"#;
    let results = world.run_reading(calls, &["batch", "-"]).expect(0).json();
    assert_eq!(
        (&results[0]["metadata"]["server"], &results[1]["metadata"]["server"]),
        (&json!("one"), &json!("two")),
        "{results}"
    );
}

#[test]
fn a_schema_that_no_one_can_use_does_not_keep_a_tool_from_being_called() {
    let odd = json!({"name": "odd", "inputSchema": {"type": "object", "properties": {"a": {"type": 7}}, "$ref": "https://example.com/x"}});
    let scripted = Scripted::new(Script { tools: vec![odd], ..Script::legacy() });
    let mut server = entry("s", &scripted);
    server["validate"] = json!("off");
    let world = World::with_servers(json!([server]));
    world.run(&["call", "s/odd", "a=1"]).expect(0);
    assert_eq!(received(&scripted), json!({"a": 1}));
}

/// A legacy server in shell with these tools, and `cases` that say what becomes of a call: they see `$line` and set
/// `result`.
fn in_shell(tools: &str, cases: &str) -> World {
    let script = format!(
        r#"
while read -r line; do
  id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  case "$line" in
    *'"initialize"'*) result='{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}' ;;
    *'"tools/list"'*) result='{{"tools":[{tools}]}}' ;;
    {cases}
    *'"id"'*) printf '{{"jsonrpc":"2.0","id":%s,"error":{{"code":-32601,"message":"no"}}}}\n' "$id"; continue ;;
    *) continue ;;
  esac
  printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$result"
done
"#
    );
    let args = json!(["-c", script.replace('$', "$$")]);
    World::with_servers(json!([{"name": "s", "command": "sh", "args": args, "era": "legacy"}]))
}

#[test]
fn text_that_was_cut_within_a_character_is_shown_up_to_there() {
    let world = in_shell(
        r#"{"name":"t","description":"about \ud83d","inputSchema":{"type":"object"}},{"name":"bad","inputSchema":{"type":"object"}}"#,
        r#"*'"bad"'*) result='{"content":[{"type":"text","text":"broken \ud83d"}],"isError":true}' ;;
    *'"tools/call"'*) result='{"content":[{"type":"text","text":"first"},{"type":"text","text":"cut \ud83d"}]}' ;;"#,
    );
    assert_eq!(world.run(&["call", "s/t"]).expect(0).stdout, "first\ncut \u{fffd}\n");
    assert!(world.run(&["call", "s/bad"]).expect(1).stderr.contains("s/bad: broken \u{fffd}"));
    assert!(world.run(&["tools"]).expect(0).stdout.contains("about \u{fffd}"));
    let batch = world.run_reading(r#"{"tool":"s/t"}"#, &["batch", "-"]).expect(0).json();
    assert_eq!(batch["data"][1]["text"], "cut \u{fffd}");
}

#[test]
fn numbers_reach_the_server_with_every_digit() {
    // It answers with the digits of `n` as it heard them.
    let world = in_shell(
        r#"{"name":"t","inputSchema":{"type":"object"}}"#,
        r#"*'"tools/call"'*) n=$(printf %s "$line" | sed 's/.*"n":\([0-9.]*\).*/\1/'); result='{"content":[{"type":"text","text":"'$n'"}]}' ;;"#,
    );
    for digits in ["12345678901234567890123", "0.10000000000000000001", "1.50"] {
        let told = |words: &[&str]| world.run(&[&["call", "s/t"], words].concat()).expect(0).stdout;
        assert_eq!(told(&[&format!("n:={digits}")]), format!("{digits}\n"));
        assert!(told(&["--json", &format!("{{\"n\": {digits}}}")]).contains(&format!("\"{digits}\"")));
        let call = format!("{{\"tool\":\"s/t\",\"arguments\":{{\"n\":{digits}}}}}");
        let batch = world.run_reading(&call, &["batch", "--json", "-"]).expect(0).stdout;
        assert!(batch.contains(&format!("\"data\":{}", json!(digits.parse::<f64>().unwrap()))), "{batch}");
    }
}
