//! Requests without a parameter that they need: which error each gets, in both eras, from every server of ours.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use tsugi_testkit::golden::Golden;

use crate::world::World;

/// A method with parameters of which one is missing or of the wrong type.
fn cases() -> Vec<(&'static str, Value)> {
    let prompt = json!({"type": "ref/prompt", "name": "x"});
    vec![
        ("tools/call", json!({})),
        ("tools/call", json!({"name": 7})),
        ("tools/call", json!({"arguments": {}})),
        ("prompts/get", json!({})),
        ("prompts/get", json!({"name": null})),
        ("resources/read", json!({})),
        ("resources/read", json!({"uri": 7})),
        ("resources/read", json!({"uri": null})),
        ("resources/read", json!({"name": "x"})),
        ("resources/subscribe", json!({})),
        ("resources/subscribe", json!({"uri": 7})),
        ("resources/unsubscribe", json!({})),
        ("completion/complete", json!({})),
        ("completion/complete", json!({"ref": prompt})),
        ("completion/complete", json!({"ref": {"type": "ref/resource"}, "argument": {"name": "a", "value": ""}})),
        ("completion/complete", json!({"argument": {"name": "a", "value": ""}})),
        ("logging/setLevel", json!({})),
        ("logging/setLevel", json!({"level": "loud"})),
        ("subscriptions/listen", json!({})),
        ("initialize", json!({})),
        // Not a missing parameter but a missing resource: the only line that may have another number.
        ("resources/read", json!({"uri": "nowhere://x"})),
    ]
}

/// A program that speaks over its standard streams.
struct Spoken {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    number: u64,
}

impl Spoken {
    fn start(mut command: std::process::Command, is_legacy: bool) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut spoken = Self { child, input, output, number: 0 };
        if is_legacy {
            let client = json!({"name": "t", "version": "1"});
            let opening = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
            assert!(spoken.ask("initialize", opening)["result"].is_object());
            writeln!(spoken.input, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#).unwrap();
        }
        spoken
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params});
        writeln!(self.input, "{request}").unwrap();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended at {request}");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == self.number {
                return message;
            }
        }
    }
}

impl Drop for Spoken {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    });
    params
}

/// What the answer was, for the table.
fn shown(answer: &Value) -> String {
    match &answer["error"]["code"] {
        Value::Null => "a result".to_owned(),
        code => code.to_string(),
    }
}

#[test]
fn a_missing_parameter_is_an_invalid_request_in_both_eras_and_never_a_missing_resource() {
    let world = World::new();
    let pm = Path::new(env!("CARGO_BIN_EXE_mcp-server-pm")).display().to_string();
    let pm_args = "--db, pm.db, --agent-id, agt_me, --create-agent";
    let config =
        format!("servers:\n  - {{name: demo, builtin: demo}}\n  - {{name: pm, command: {pm}, args: [{pm_args}]}}\n");
    world.write("tsugi.yaml", &config);
    let mut table = String::from("method, parameters: demo alone | pm alone | all together | pm without tsugi\n");
    for is_legacy in [true, false] {
        table.push_str(if is_legacy { "\nlegacy (2025-11-25)\n" } else { "\nmodern (2026-07-28)\n" });
        #[expect(clippy::disallowed_methods, reason = "the program under test")]
        let mut own = std::process::Command::new(&pm);
        own.args(["--db", "own.db", "--agent-id", "agt_me", "--create-agent"]).current_dir(world.path()).env_clear();
        own.env("HOME", world.path()).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let [demo, ours, all] = [&["stdio", "--server", "demo"][..], &["stdio", "--server", "pm"], &["stdio"]];
        let commands = [world.command(demo), world.command(ours), world.command(all), own];
        let mut programs = commands.map(|command| Spoken::start(command, is_legacy));
        for (method, params) in cases() {
            let answers: Vec<String> = programs
                .iter_mut()
                .map(|program| {
                    let params = if is_legacy { params.clone() } else { modern(params.clone()) };
                    shown(&program.ask(method, params))
                })
                .collect();
            table.push_str(&format!("{method} {params}: {}\n", answers.join(" | ")));
            let is_missing_resource = params == json!({"uri": "nowhere://x"});
            for answer in answers.iter().filter(|_| !is_missing_resource) {
                assert!(!["-32002", "-32603"].contains(&answer.as_str()), "{method} {params}: {answer}\n{table}");
            }
        }
    }
    let golden = Golden::in_folder(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/command"));
    golden.check("missing_parameters.txt", &table);
}
