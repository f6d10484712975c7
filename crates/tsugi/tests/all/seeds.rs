//! The samples of the source documents, run as they are written. The documents lie beside the checkout, in
//! `../shared/seeds`; where they are not there, each test says so and passes.

use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tsugi_testkit::script::{Action, Rule, Script};
use tsugi_testkit::scripted::Scripted;

use crate::world::{Serving, World, until};

/// A source document.
struct SeedDocument(String);

impl SeedDocument {
    /// The document with this number, if it is there.
    fn find(number: &str) -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/seeds");
        let files = std::fs::read_dir(&folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        let path = files
            .into_iter()
            .find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(number)));
        let found = path.and_then(|path| std::fs::read_to_string(path).ok()).map(Self);
        if found.is_none() {
            println!("skipped: seed {number} is not in {}", folder.display());
        }
        found
    }

    /// Its code blocks in this language, in order.
    fn blocks(&self, language: &str) -> Vec<&str> {
        let opening = format!("```{language}\n");
        self.0.split(&opening).skip(1).map(|rest| rest.split("\n```").next().unwrap_or_default()).collect()
    }

    /// The first block in this language that has all of these words.
    #[track_caller]
    fn block(&self, language: &str, words: &[&str]) -> &str {
        let all = self.blocks(language);
        let found = all.into_iter().find(|block| words.iter().all(|word| block.contains(word)));
        found.unwrap_or_else(|| panic!("no {language} block has {words:?}"))
    }

    /// The JSON values of a block, which may stand one below the other with comments between them.
    #[track_caller]
    fn json(&self, words: &[&str]) -> Vec<Value> {
        let block = self.block("json", words);
        let plain: String = block.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        serde_json::Deserializer::from_str(&plain).into_iter().collect::<Result<_, _>>().unwrap()
    }

    /// The cells of the first table whose head has this word, without head and rule.
    fn table(&self, head: &str) -> Vec<Vec<String>> {
        let lines = self.0.lines().skip_while(|line| !(line.starts_with('|') && line.contains(head)));
        let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
        rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect())
            .collect()
    }
}

/// A gateway in front of one server that plays a sample.
fn serve_played(world: &World, script: Script) -> (Scripted, Serving) {
    let scripted = Scripted::new(script);
    let env: serde_json::Map<String, Value> =
        scripted.env().into_iter().map(|(name, value)| (name, value.into())).collect();
    let args: Vec<String> = scripted.args().iter().map(|arg| arg.replace('$', "$$")).collect();
    let server = json!({"name": "health-server", "command": scripted.program(), "args": args, "env": env});
    world.write("tsugi.json", &json!({"servers": [server]}).to_string());
    let serving = world.serve(&[]);
    serving.connected("health-server");
    (scripted, serving)
}

fn bmi_call(seed: &SeedDocument) -> Value {
    let request = &seed.json(&["\"tools/call\"", "\"id\": 2"])[0];
    json!({"server": "health-server", "toolName": request["params"]["name"], "input": request["params"]["arguments"]})
}

fn post(serving: &Serving, body: &Value) -> (u16, Value) {
    let (head, body) = serving.ask("POST", "/mcp/call", &[], &body.to_string());
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(&body).unwrap())
}

#[test]
fn seed_001_a_handshake_a_list_and_a_call_give_the_answers_that_are_written_there() {
    let Some(seed) = SeedDocument::find("001") else { return };
    let handshake = seed.json(&["\"initialize\"", "weather-server"]);
    let list = seed.json(&["\"tools\": [", "\"inputSchema\""]);
    let result = seed.json(&["\"id\": 2", "\"result\""]);
    let script = Script::legacy()
        .rule(Rule::on("initialize").act(Action::Result(handshake[1]["result"].clone())))
        .rule(Rule::on("tools/list").act(Action::Result(list[0]["result"].clone())))
        .rule(Rule::on("tools/call").act(Action::Result(result[0]["result"].clone())));
    let world = World::new();
    let (scripted, serving) = serve_played(&world, script);
    let (_, tools) = serving.ask("GET", "/mcp/tools", &[], "");
    let tools: Value = serde_json::from_str(&tools).unwrap();
    let shown = tools.as_array().or_else(|| tools["tools"].as_array()).unwrap_or_else(|| panic!("{tools}"));
    for key in ["name", "description", "inputSchema"] {
        assert_eq!(shown[0][key], list[0]["result"]["tools"][0][key], "{tools}");
    }
    assert_eq!((&shown[0]["server"], &shown[0]["timeout"]), (&json!("health-server"), &json!(30000)), "{tools}");
    let expected = &seed.json(&["\"success\": true"])[0];
    assert_eq!(post(&serving, &bmi_call(&seed)), (200, expected.clone()));
    // What the server received is the request of the seed, with our own id and `_meta`.
    let received = scripted.journal().received("tools/call");
    let request = &seed.json(&["\"tools/call\"", "\"id\": 2"])[0];
    for key in ["name", "arguments"] {
        assert_eq!(received[0]["params"][key], request["params"][key], "{received:?}");
    }
}

#[test]
fn seed_001_every_error_code_becomes_the_status_and_the_word_of_its_table() {
    let Some(seed) = SeedDocument::find("001") else { return };
    let [from, to] = seed.json(&["\"field\": \"weight_kg\""]).try_into().unwrap();
    let error = |code: i64, message: &str, data: Option<Value>| Action::Error { code, message: message.into(), data };
    let mut cases: Vec<(i64, u16, String)> = Vec::new();
    for row in seed.table("MCP Gateway エラーコード") {
        // The last row is for any other number.
        let code = row[0].parse().unwrap_or(-32042);
        cases.push((code, row[2].parse().unwrap(), row[3].clone()));
    }
    assert_eq!(cases.len(), 6, "{cases:?}");
    let mut script = Script::legacy().rule(Rule::on("tools/call").nth(1).act(error(
        from["error"]["code"].as_i64().unwrap(),
        from["error"]["message"].as_str().unwrap(),
        Some(from["error"]["data"].clone()),
    )));
    for (index, (code, ..)) in cases.iter().enumerate() {
        script = script.rule(Rule::on("tools/call").nth(index as u64 + 2).act(error(*code, "words", None)));
    }
    let world = World::new();
    let (_scripted, serving) = serve_played(&world, script);
    let call = json!({"server": "health-server", "toolName": "echo", "input": {"message": "x"}});
    let (status, answer) = post(&serving, &call);
    assert_eq!((status, answer), (400, to));
    for (code, status, word) in cases {
        let (got, answer) = post(&serving, &call);
        assert_eq!((got, answer["error"]["code"].as_str()), (status, Some(word.as_str())), "{code}: {answer}");
    }
}

#[test]
fn seed_001_the_configuration_is_accepted_as_it_is_written() {
    let Some(seed) = SeedDocument::find("001") else { return };
    let world = World::new();
    world.write("config.yaml", seed.block("yaml", &["remote-sse-server"]));
    let checked = world.run(&["check", "--config", "config.yaml", "--json"]);
    assert!(checked.status.success(), "{}", text(&checked));
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(checked["servers"].as_array().unwrap().len(), 3, "{checked}");
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs `mcp-server-pm` with these words and the requests of a legacy client on its input; the answers by their ids.
fn pm(world: &World, words: &[String], requests: &[Value]) -> (Output, Vec<Value>) {
    #[expect(clippy::disallowed_methods, reason = "the program under test, which ends with its input")]
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mcp-server-pm"));
    command.args(words).current_dir(world.path()).env_clear().env("HOME", world.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let hello =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let mut input = Vec::new();
    // The framing of the seed: a header, an empty line, the body.
    let mut push = |message: Value| {
        let body = message.to_string();
        input.extend(format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes());
    };
    push(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}));
    push(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    for (index, request) in requests.iter().enumerate() {
        push(json!({"jsonrpc": "2.0", "id": index + 1, "method": request["method"], "params": request["params"]}));
    }
    // A program that has ended already does not read it.
    let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), &input);
    let output = child.wait_with_output().unwrap();
    let answers = String::from_utf8_lossy(&output.stdout).into_owned();
    let bodies = answers.split("Content-Length: ").skip(1).filter_map(|part| part.split_once("\r\n\r\n"));
    let mut answers: Vec<Value> = bodies.map(|(_, body)| serde_json::from_str(body).unwrap()).collect();
    answers.retain(|answer| answer["id"].as_u64().is_some_and(|id| id > 0));
    answers.sort_by_key(|answer| answer["id"].as_u64());
    (output, answers)
}

/// The command line of the seed, with its database in this world.
fn pm_words(seed: &SeedDocument, world: &World) -> Vec<String> {
    let line = seed.block("bash", &["mcp-server-pm"]).replace("\\\n", " ");
    let database = world.path().join("data.db").display().to_string();
    let words = line.split_whitespace().skip(1).map(|word| word.trim_matches('"').to_owned());
    words.map(|word| if word.starts_with("/path") { database.clone() } else { word }).collect()
}

fn request(method: &str, params: Value) -> Value {
    json!({"method": method, "params": params})
}

/// The texts behind a key in a piece of Swift, such as `name: "x"`.
fn quoted<'a>(piece: &'a str, key: &str) -> Option<&'a str> {
    piece.split(&format!("{key}: \"")).nth(1)?.split('"').next()
}

#[test]
fn seed_002_the_command_starts_for_an_agent_that_exists_and_offers_the_tools_that_are_written_there() {
    let Some(seed) = SeedDocument::find("002") else { return };
    let world = World::new();
    let words = pm_words(&seed, &world);
    assert_eq!(words[0], "--db");
    let (refused, answers) = pm(&world, &words, &[]);
    assert!(!refused.status.success() && answers.is_empty(), "an agent that does not exist: {}", text(&refused));
    assert!(text(&refused).contains("agt_abc123"), "{}", text(&refused));
    let seeded = |more: &[&str]| [words.clone(), more.iter().map(|word| (*word).to_owned()).collect()].concat();
    assert!(pm(&world, &seeded(&["--create-agent"]), &[]).0.status.success());
    let list = [request("tools/list", json!({}))];
    let (_, answers) = pm(&world, &seeded(&["--tools", "seed", "--lang", "ja"]), &list);
    let tools = answers[0]["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answers:?}"));
    let mut seen = 0;
    for definition in seed.block("swift", &["ToolDefinition("]).split("ToolDefinition(\n").skip(1) {
        let definition = definition.split("inputSchema").next().map(|head| (head, definition)).unwrap();
        let (name, description) = (quoted(definition.0, "name").unwrap(), quoted(definition.0, "description").unwrap());
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name} is missing"));
        assert!(tool["description"].as_str().unwrap().contains(description), "{tool}");
        let properties = definition.1.split("return JSONRPC").next().unwrap();
        for line in properties.lines().filter(|line| line.contains(": .string(") || line.contains(": .array(")) {
            let argument = line.trim().trim_matches('"').split('"').next().unwrap();
            let property = &tool["inputSchema"]["properties"][argument];
            let described = property["description"].as_str().unwrap_or_default();
            let expected = quoted(line, "description").unwrap();
            assert!(!described.is_empty(), "{name}.{argument} has no description: {tool}");
            assert!(
                described.contains(expected.split(": ").next().unwrap()),
                "{name}.{argument} is {described:?}, not {expected:?}"
            );
            let is_required =
                tool["inputSchema"]["required"].as_array().is_some_and(|names| names.contains(&json!(argument)));
            if line.contains("optional: true") {
                assert!(!is_required, "{name}.{argument}");
            }
            seen += 1;
        }
    }
    assert_eq!((seen, tools.len()), (14, 8), "{tools:?}");
}

#[test]
fn seed_002_resources_prompts_and_errors_are_those_that_are_written_there() {
    let Some(seed) = SeedDocument::find("002") else { return };
    let world = World::new();
    let words = [pm_words(&seed, &world), ["--create-agent", "--lang", "ja"].map(str::to_owned).to_vec()].concat();
    let requests = [
        request("resources/list", json!({})),
        request("resources/templates/list", json!({})),
        request("prompts/list", json!({})),
        request("prompts/get", json!({"name": "session_start"})),
        request("resources/read", json!({})),
        request("nonsense/method", json!({})),
        request("resources/read", json!({"uri": "agent://me"})),
        request("resources/read", json!({"uri": "session://current"})),
    ];
    let (_, answers) = pm(&world, &words, &requests);
    assert_eq!(answers.len(), requests.len(), "{answers:?}");
    let resources = seed.block("swift", &["ResourceDefinition("]);
    for (definition, key, list) in [("ResourceDefinition(", "uri", 0), ("ResourceTemplate(", "uriTemplate", 1)] {
        for piece in resources.split(definition).skip(1) {
            let uri = quoted(piece, key).unwrap();
            let name = if list == 0 { "resources" } else { "resourceTemplates" };
            let listed = answers[list]["result"][name].as_array().unwrap();
            // A template's variable may be called otherwise: clients put a value in its place.
            let plain = |text: &str| text.split('{').next().unwrap().to_owned();
            let is_listed = listed.iter().any(|item| plain(item[key].as_str().unwrap()) == plain(uri));
            assert!(is_listed, "{uri}: {listed:?}");
        }
    }
    for piece in seed.block("swift", &["PromptDefinition("]).split("PromptDefinition(\n").skip(1) {
        let name = quoted(piece, "name").unwrap();
        let prompts = answers[2]["result"]["prompts"].as_array().unwrap();
        let prompt = prompts.iter().find(|prompt| prompt["name"] == name).unwrap_or_else(|| panic!("{name}"));
        let arguments = piece.split("]").next().unwrap();
        if let Some(argument) = arguments.split("PromptArgument(").nth(1) {
            let argument = quoted(argument, "name").unwrap();
            assert!(prompt["arguments"].to_string().contains(argument), "{prompt}");
        }
    }
    let opening = answers[3]["result"]["messages"][0]["content"]["text"].as_str().unwrap();
    for line in ["# セッション開始", "## あなたの情報", "## 担当タスク (0件)"] {
        assert!(opening.contains(line), "{opening}");
    }
    assert_eq!((&answers[4]["error"]["code"], &answers[5]["error"]["code"]), (&json!(-32602), &json!(-32601)));
    assert!(answers[6]["result"]["contents"][0].is_object() && answers[7]["result"]["contents"][0].is_object());
}

#[test]
fn seed_004_the_configuration_is_accepted_once_its_one_mistake_is_mended_as_the_error_says() {
    let Some(seed) = SeedDocument::find("004") else { return };
    let world = World::new();
    let sample = seed.block("yaml", &["mcp.config.yaml"]);
    world.write("mcp.config.yaml", sample);
    let check = |words: &[&str]| {
        let mut command = world.command(&[&["check"], words].concat());
        command.env("PROJECT_ROOT", "/srv/project").env("API_KEY", "canary-key-1").stdin(Stdio::null());
        command.output().unwrap()
    };
    let refused = check(&[]);
    let line = sample.lines().position(|line| line.contains("@akiojin")).unwrap() + 1;
    let said = text(&refused);
    assert!(!refused.status.success() && said.contains(&format!("mcp.config.yaml:{line}:")), "{said}");
    assert!(said.contains("quote"), "{said}");
    world.write("mcp.config.yaml", &sample.replace("@akiojin/mcp-filesystem", "\"@akiojin/mcp-filesystem\""));
    let accepted = check(&["--json"]);
    assert!(accepted.status.success() && !text(&accepted).contains("canary"), "{}", text(&accepted));
    let checked: Value = serde_json::from_slice(&accepted.stdout).unwrap();
    let names: Vec<&Value> = checked["servers"].as_array().unwrap().iter().map(|server| &server["name"]).collect();
    assert_eq!(names, ["serena", "filesystem", "custom-api"]);
}

/// The waits and codes of the retry sample, and a switch of the programmatic one.
#[test]
fn seed_004_options_of_the_samples_are_known() {
    let Some(seed) = SeedDocument::find("004") else { return };
    assert!(seed.block("typescript", &["interface RetryPolicy"]).contains("retryableErrors?: string[]"));
    let world = World::new();
    let server = "servers: [{name: demo, builtin: demo}]\n";
    let codes = "EXECUTION_FAILED, INVALID_PARAMS, TIMEOUT, CONNECTION_LOST, RATE_LIMIT_EXCEEDED";
    world.write(
        "tsugi.yaml",
        &format!(
            "{server}options:\n  debug: true\n  maxParallel: 5\n  retryPolicy: {{maxRetries: 3, initialDelay: 1000, \
                  maxDelay: 10000, backoffMultiplier: 2, retryableErrors: [{codes}]}}\n"
        ),
    );
    let checked = world.run(&["check"]);
    assert!(checked.status.success(), "{}", text(&checked));
    world.write("tsugi.yaml", &format!("{server}options: {{retryPolicy: {{retryableErrors: [EXECUTION_FAILD]}}}}\n"));
    let refused = world.run(&["check"]);
    assert!(!refused.status.success() && text(&refused).contains("EXECUTION_FAILED"), "{}", text(&refused));
}

#[test]
fn seed_000_and_001_a_server_that_comes_late_or_dies_is_used_again_and_the_log_says_so() {
    let Some(seed) = SeedDocument::find("001") else { return };
    assert!(seed.block("go", &["MCP Client disconnected"]).contains("slog.Error"));
    let world = World::new();
    world.write("tsugi.yaml", &format!("servers: [{}]\n", world.entry("demo")));
    let serving = world.serve(&[]);
    let pid = serving.connected("demo")["pid"].as_u64().unwrap();
    tsugi_testkit::process::send(pid as u32, rustix::process::Signal::KILL);
    serving.wait_for("demo");
    until(|| serving.connected("demo")["pid"].as_u64() != Some(pid), || "it is not started again".to_owned());
    let talk = serving.talk();
    assert!(talk.lines().any(|line| line.contains("demo") && line.contains("SIGKILL")), "{talk}");
}
