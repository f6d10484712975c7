//! What is wrong with servers, named: each cause with a real small process or a real address.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tsugi_testkit::fake::tls::Certificate;
use tsugi_testkit::fake::{Fake, refused, reply};
use tsugi_testkit::script::{Action, Rule, Script};
use tsugi_testkit::scripted::Scripted;

use super::world::{World, entry};

/// A server that is a few words of shell.
fn shell(script: &str) -> Value {
    json!({"name": "s", "command": "sh", "args": ["-c", script.replace('$', "$$")]})
}

/// What the doctor finds in the one server `s`, and the code it ends with.
fn examine_with(world: &World, server: Value, variables: &[(&str, &str)], args: &[&str]) -> (Value, i32) {
    world.write("tsugi.json", &json!({"servers": [server]}).to_string());
    let words = [&["doctor", "--json"], args].concat();
    let ran = world.run_with(variables, &words);
    let found = ran.json();
    assert_eq!(found["servers"][0]["name"], "s", "{found}");
    (found["servers"][0].clone(), ran.code.unwrap())
}

#[track_caller]
fn check(server: Value, cause: &str) -> Value {
    check_within("20s", server, cause)
}

#[track_caller]
fn check_within(timeout: &str, server: Value, cause: &str) -> Value {
    let (found, code) = examine_with(&World::new(), server, &[], &["--timeout", timeout]);
    assert_eq!(found["cause"], cause, "{found:#}");
    assert!(!found["advice"].as_str().unwrap().is_empty());
    assert_eq!((found["healthy"].clone(), code == 0), (json!(false), false), "{found:#}");
    found
}

#[test]
fn a_program_that_is_missing() {
    let found = check(json!({"name": "s", "command": "no-such-program-here"}), "program-missing");
    assert!(found["message"].as_str().unwrap().contains("`no-such-program-here`") && found["program"].is_null());
    let found = check(json!({"name": "s", "command": "/nowhere/npx"}), "program-missing");
    assert!(found["advice"].as_str().unwrap().contains("Node.js"), "{found}");
}

#[test]
fn a_node_that_is_too_old() {
    let words = "npm error code EBADENGINE\nnpm error engine Unsupported engine\nnpm error notsup Not compatible with your version of node/npm: x@1.0.0";
    let found = check(shell(&format!("printf '{words}\\n' >&2; exit 1")), "wrong-node");
    assert!(found["stderr"].to_string().contains("EBADENGINE"), "{found}");
}

#[test]
fn a_python_that_is_too_old() {
    let words = "Because the current Python version (3.9.2) does not satisfy Python>=3.10 and x==1.0 depends on Python>=3.10, we can conclude that x==1.0 cannot be used.";
    let world = World::new();
    for (name, script) in [("server", format!("echo '{words}' >&2; exit 1")), ("python3", "echo Python 3.9.2".into())] {
        let path = world.write(name, &format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let (found, _) = examine_with(&world, json!({"name": "s", "command": world.work().join("server")}), &[], &[]);
    assert_eq!((&found["cause"], &found["installed"]), (&json!("wrong-python"), &json!("python3 3.9.2")), "{found:#}");
}

#[test]
fn a_package_that_does_not_exist() {
    let world = World::new();
    for (runner, words) in [
        ("npx", "npm error code E404\nnpm error 404  '@nobody/nothing@*' is not in this registry."),
        (
            "uvx",
            "  × No solution found when resolving tool dependencies:\n  ╰─▶ Because nothing was not found in the package registry",
        ),
    ] {
        let path = world.write(runner, &format!("#!/bin/sh\ncat >&2 <<'END'\n{words}\nEND\nexit 1\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let server = json!({"name": "s", "command": path, "args": ["-y", "@nobody/nothing"]});
        let (found, _) = examine_with(&world, server, &[], &[]);
        assert_eq!(found["cause"], "package-not-found", "{found:#}");
        assert!(found["message"].as_str().unwrap().contains("`@nobody/nothing`"), "{found}");
    }
    let module = check(shell("exec python3 -c 'import no_such_module_here'"), "package-not-found");
    assert!(module["message"].as_str().unwrap().contains("`no_such_module_here`"), "{module}");
}

#[test]
fn a_banner_on_standard_output() {
    let found = check_within("1s", shell("echo 'Welcome to my server v1!'; exec sleep 600"), "banner-on-stdout");
    assert!(found["message"].as_str().unwrap().contains("Welcome to my server"), "{found}");
    // One that works all the same is told to do better, and counts as working.
    let polite =
        Scripted::new(Script::modern().rule(Rule::on("start").act(Action::Write("Listening on stdio\n".into()))));
    let (found, code) = examine_with(&World::new(), entry("s", &polite), &[], &[]);
    assert_eq!((found["cause"].as_str(), found["healthy"].as_bool(), code), (Some("banner-on-stdout"), Some(true), 0));
}

#[test]
fn a_variable_that_is_needed() {
    let script = "test -n \"$BRAVE_API_KEY\" || { echo 'Error: BRAVE_API_KEY environment variable is required' >&2; exit 1; }; exec sleep 600";
    let found = check(shell(script), "needs-variable");
    assert!(found["message"].as_str().unwrap().contains("BRAVE_API_KEY"), "{found}");
    assert!(found["advice"].as_str().unwrap().contains("${BRAVE_API_KEY}"), "{found}");
}

#[test]
fn a_variable_that_is_set_but_not_passed_on_is_passed_on_by_fix() {
    let world = World::new();
    let scripted = Scripted::new(Script::modern());
    let quoted: Vec<String> = scripted.args().iter().map(|arg| format!("'{arg}'")).collect();
    let script = format!(
        "#!/bin/sh\ntest -n \"$SHOP_TOKEN\" || {{ echo 'SHOP_TOKEN is not set' >&2; exit 1; }}\nexec {} {}\n",
        scripted.program().display(),
        quoted.join(" ")
    );
    let program = world.write("server.sh", &script);
    world.write("tsugi.yaml", &format!("servers:\n  # the shop\n  - name: s\n    command: {}\n", program.display()));
    let variables = [("SHOP_TOKEN", "canary")];
    let found = |words: &[&str]| world.run_with(&variables, words).json()["servers"][0].clone();
    let first = found(&["doctor", "--json", "--fix"]);
    assert_eq!(first["cause"], "program-not-executable", "{first:#}");
    assert!(first["fixed"].is_string(), "{first:#}");
    let second = found(&["doctor", "--json", "--fix"]);
    assert_eq!(second["cause"], "needs-variable", "{second:#}");
    assert!(second["fixed"].as_str().unwrap().contains("SHOP_TOKEN"), "{second:#}");
    let text = std::fs::read_to_string(world.work().join("tsugi.yaml")).unwrap();
    assert!(
        text.contains("# the shop") && text.contains("SHOP_TOKEN: \"${SHOP_TOKEN}\"") && !text.contains("canary"),
        "{text}"
    );
    let third = world.run_with(&variables, &["doctor"]).expect(0);
    assert!(third.stdout.starts_with("s: ok"), "{third:?}");
}

#[test]
fn a_port_that_refuses() {
    let address = refused();
    check(json!({"name": "s", "url": format!("http://{address}/mcp")}), "port-refused");
}

#[test]
fn a_certificate_for_another_name() {
    let world = World::new();
    let certificate = Certificate::wrong_name();
    let authority = world.write("authority.pem", certificate.authority_pem());
    let fake = Fake::start_tls(certificate, |_| reply::json("{}"));
    let url = fake.url();
    let server = json!({"name": "s", "url": url});
    let (found, _) = examine_with(&world, server, &[("SSL_CERT_FILE", authority.to_str().unwrap())], &[]);
    assert_eq!(found["cause"], "tls-wrong-name", "{found:#}");
}

#[test]
fn an_address_that_wants_a_key() {
    let fake = Fake::start(|_| reply::status(401, &[], ""));
    let found = check(json!({"name": "s", "url": fake.url()}), "unauthorized");
    assert!(found["advice"].as_str().unwrap().contains("Authorization"), "{found}");
}

#[test]
fn an_address_that_wants_an_oauth_sign_in() {
    let challenge = "Bearer resource_metadata=\"http://127.0.0.1/.well-known/oauth-protected-resource\"";
    let fake = Fake::start(move |_| reply::status(401, &[("WWW-Authenticate", challenge)], ""));
    // Its metadata is on this machine, where nothing is fetched unless that is allowed.
    let found = check(json!({"name": "s", "url": fake.url()}), "sign-in-refused");
    assert!(found["advice"].as_str().unwrap().contains("outbound.allow"), "{found}");
}

#[test]
fn a_web_page_at_the_address() {
    let fake = Fake::start(|_| reply::status(200, &[("Content-Type", "text/html")], "<!doctype html><p>Welcome"));
    check(json!({"name": "s", "url": fake.url()}), "not-mcp");
}

#[test]
fn a_python_module_that_does_not_exist() {
    let server = json!({"name": "s", "command": "python3", "args": ["-m", "no_such_module_here"]});
    let found = check(server, "package-not-found");
    assert!(found["message"].as_str().unwrap().contains("`no_such_module_here`"), "{found}");
}

#[test]
fn a_script_that_is_misspelt() {
    let found = check(json!({"name": "s", "command": "sh", "args": ["./nothere.sh"]}), "script-missing");
    assert!(found["message"].as_str().unwrap().contains("`./nothere.sh`"), "{found}");
}

#[test]
fn a_server_that_hangs_in_initialize() {
    let found = check_within("1s", shell("echo 'waiting for the database lock' >&2; exec sleep 600"), "hangs");
    assert!(found["stderr"].to_string().contains("database lock"), "{found}");
}

#[test]
fn a_package_runner_that_hangs_may_still_be_downloading() {
    let world = World::new();
    let path = world.write("npx", "#!/bin/sh\nexec sleep 600\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (found, _) = examine_with(&world, json!({"name": "s", "command": path}), &[], &["--timeout", "1s"]);
    assert_eq!(found["cause"], "hangs", "{found:#}");
    assert!(found["advice"].as_str().unwrap().contains("npx may still be downloading"), "{found}");
    let confined = json!({"name": "s", "command": path, "sandbox": {"net": "none", "required": false}});
    let (found, _) = examine_with(&world, confined, &[], &["--timeout", "1s"]);
    assert_eq!(found["cause"], "no-network", "{found:#}");
    let said = world.run(&["doctor", "--timeout", "1s"]).stderr;
    assert!(said.starts_with("warning: s: npx needs its registry"), "the entry says it before it is tried: {said}");
    assert!(said.contains("1 server does not work: s (no-network)"), "{said}");
}

#[test]
fn a_server_that_crashes_at_its_start() {
    let found = check(shell("echo 'panic: nil pointer' >&2; exit 3"), "crashes");
    assert!(found["message"].as_str().unwrap().contains("exit code 3"), "{found}");
    assert_eq!(found["stderr"], json!(["panic: nil pointer"]));
}

#[test]
fn a_server_that_crashes_without_a_word_is_not_quoted() {
    let found = check(shell("exit 3"), "crashes");
    let advice = found["advice"].as_str().unwrap();
    assert!(advice.contains("printed nothing") && !advice.contains("above"), "{found}");
}

#[test]
fn a_sandbox_that_forbids_the_program_itself() {
    let elsewhere = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    if elsewhere.starts_with(std::env::temp_dir()) {
        println!("skipped: this checkout lies in a temporary directory, which every sandbox has");
        return;
    }
    let (folder, outside) = (tempfile::tempdir_in(elsewhere).unwrap(), tempfile::tempdir_in(elsewhere).unwrap());
    let (program, interpreter) = (folder.path().join("server"), outside.path().join("interpreter"));
    std::fs::write(&program, format!("#!{}\n", interpreter.display())).unwrap();
    std::fs::write(&interpreter, "#!/bin/sh\nexec sleep 600\n").unwrap();
    for path in [&program, &interpreter] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let server = json!({"name": "s", "command": program, "sandbox": {"write": [], "read": [], "required": false}});
    let found = check(server, "sandbox-denies");
    let path = interpreter.to_str().unwrap();
    assert!(found["message"].as_str().unwrap().contains(path), "{found}");
    assert!(found["advice"].as_str().unwrap().contains(path), "{found}");
}

#[test]
fn a_sandbox_that_denies_a_path() {
    // Temporary directories may always be written, so this one is elsewhere.
    let elsewhere = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    if elsewhere.starts_with(std::env::temp_dir()) {
        println!("skipped: this checkout lies in a temporary directory, where every server may write");
        return;
    }
    let folder = tempfile::tempdir_in(elsewhere).unwrap();
    let file = folder.path().join("data");
    let mut server = shell(&format!("echo x > {} || exit 1; exec sleep 600", file.display()));
    server["sandbox"] = json!({"write": [], "read": [], "required": false});
    let found = check(server, "sandbox-denies");
    assert!(found["message"].as_str().unwrap().contains(file.to_str().unwrap()), "{found}");
}

#[test]
fn servers_that_work_are_told_with_what_they_speak() {
    let (modern, legacy) = (Scripted::new(Script::modern()), Scripted::new(Script::legacy()));
    let world = World::with_servers(json!([entry("new", &modern), entry("old", &legacy)]));
    let ran = world.run(&["doctor"]).expect(0);
    assert!(
        ran.stdout.contains("new: ok  stdio, modern (2026-07-28)")
            && ran.stdout.contains("old: ok  stdio, legacy (2025-11-25)"),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("every server works"), "{}", ran.stderr);
}

#[test]
fn a_project_server_whose_agent_is_unknown() {
    let world = World::new();
    let database = world.work().join("team.db");
    let program = env!("CARGO_BIN_EXE_mcp-server-pm");
    let server = |args: Value| json!({"name": "s", "command": program, "args": args});
    let (found, _) = examine_with(&world, server(json!(["--db", database, "--agent-id", "agt_x"])), &[], &[]);
    assert_eq!(found["cause"], "agent-unknown", "{found:#}");
    assert!(found["message"].as_str().unwrap().contains("`agt_x`"), "{found:#}");
    assert!(found["advice"].as_str().unwrap().contains("--create-agent"), "{found:#}");
    // What it advises helps.
    let args = json!(["--db", database, "--agent-id", "agt_x", "--create-agent"]);
    let (found, code) = examine_with(&world, server(args), &[], &[]);
    assert_eq!((&found["healthy"], code), (&json!(true), 0), "{found:#}");
}

#[test]
fn a_project_server_without_a_place_for_its_database() {
    let world = World::new();
    let program = env!("CARGO_BIN_EXE_mcp-server-pm");
    let args = json!(["--db", "/proc/none/team.db", "--agent-id", "agt_x"]);
    let (found, _) = examine_with(&world, json!({"name": "s", "command": program, "args": args}), &[], &[]);
    assert_eq!(found["cause"], "pm-cannot-start", "{found:#}");
}

#[test]
fn a_server_that_has_asked_is_reported_with_what_serves_callers_side_by_side() {
    let scripted = Scripted::new(Script::legacy());
    let mut server = entry("s", &scripted);
    let world = World::with_servers(json!([server]));
    let notes = |world: &World| world.run(&["doctor", "--json"]).expect(0).json()["notes"].clone();
    assert_eq!(notes(&world), json!([]), "it has not asked yet");
    world.run(&["call", "s/ask"]).expect(0);
    let note = notes(&world)[0].as_str().unwrap_or_default().to_owned();
    assert!(note.starts_with("s asks questions") && note.contains("`instances: auto`"), "{note}");
    assert!(world.run(&["doctor"]).expect(0).stderr.contains(&note));
    for cure in [json!("auto"), json!("per-session"), json!({"pool": 2})] {
        server["instances"] = cure;
        world.write("tsugi.json", &json!({"servers": [server]}).to_string());
        assert_eq!(notes(&world), json!([]), "{server}");
    }
}
