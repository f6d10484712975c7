//! What files become, seen from outside: the seeds' examples, every kind of mistake, and no leak.

use std::path::Path;
use std::time::Duration;

use tsugi_client::config::{
    AutoSwitch, BreakerPolicy, EraChoice, InstancePolicy, RestartPolicy, StartPolicy, ValidatePolicy, ValidationMode,
};
use tsugi_gateway::GatewayLimits;
use tsugi_gateway::hub::page::PageLimit;
use tsugi_process::{NetworkAccess, SandboxPolicy, SandboxRules};

use tsugi_schema::tool_name::ToolNaming;

use super::*;
use crate::app;
use crate::config::document::DocumentFormat;
use crate::config::settings::*;

const SEED_001: &str = include_str!("../../../tests/golden/config/seed-001.yaml");
const SEED_004: &str = include_str!("../../../tests/golden/config/seed-004.yaml");
const DESIGN: &str = include_str!("../../../tests/golden/config/design.yaml");

fn environment() -> Environment {
    Environment::from_pairs([
        ("PROJECT_ROOT", "/srv/project"),
        ("API_KEY", "canary-from-variable"),
        ("HOME", "/home/me"),
    ])
}

fn load_as(text: &str, format: DocumentFormat) -> Result<ResolvedConfig, ConfigProblems> {
    let document =
        ConfigDocument::parse(Path::new("dir/tsugi.yaml"), text.to_owned(), format).map_err(ConfigProblems)?;
    resolve(&document, &environment())
}

fn load(text: &str) -> CheckedSettings {
    load_as(text, DocumentFormat::Yaml).unwrap_or_else(|problems| panic!("{problems}")).settings
}

fn problems(text: &str) -> Vec<String> {
    let problems = load_as(text, DocumentFormat::Yaml).expect_err("the configuration must be refused");
    problems.0.iter().map(ToString::to_string).collect()
}

/// Exactly these problems, in this order; each is a place and a part of the message or hint.
fn check(text: &str, expected: &[(&str, &str)]) {
    let found = problems(text);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (problem, (place, words)) in found.iter().zip(expected) {
        assert!(problem.contains(&format!("tsugi.yaml:{place}\n")) && problem.contains(words), "{words}:\n{problem}");
    }
}

/// One server with these lines in it.
fn with_server(lines: &str) -> String {
    format!("servers:\n  - name: x\n    {}\n", lines.replace('\n', "\n    "))
}

fn command(server: &ServerSettings) -> &CommandTarget {
    match &server.target {
        ServerTarget::Command(command) => command,
        other => panic!("{other:?}"),
    }
}

fn remote(server: &ServerSettings) -> &RemoteTarget {
    match &server.target {
        ServerTarget::Remote(remote) => remote,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_example_of_seed_001_loads_word_for_word() {
    let settings = load(SEED_001);
    assert_eq!(command(&settings.servers[0]).program.expose(), "/usr/local/bin/mcp-server");
    assert_eq!(settings.servers[0].timeout, Duration::from_secs(30));
    for (server, url) in [(1, "http://example.com/mcp"), (2, "http://example.com/mcp/events")] {
        assert_eq!(remote(&settings.servers[server]).url.as_str(), url);
        assert_eq!(remote(&settings.servers[server]).transport, RemoteTransport::Auto);
        assert_eq!(settings.servers[server].timeout, Duration::from_secs(60));
    }
}

#[test]
fn the_example_of_seed_004_is_explained_where_it_is_not_yaml() {
    let problem = problems(SEED_004).join("\n");
    assert!(problem.contains("tsugi.yaml:12:14"), "{problem}");
    assert!(problem.contains("needs quotes: command: \"@akiojin/mcp-filesystem\""), "{problem}");
}

#[test]
fn the_example_of_seed_004_loads_once_that_value_is_quoted() {
    let settings = load(&SEED_004.replace("@akiojin/mcp-filesystem", "\"@akiojin/mcp-filesystem\""));
    let serena = command(&settings.servers[0]);
    assert_eq!(serena.env[0].0, "SERENA_PROJECT_ROOT");
    assert_eq!(serena.env[0].1.expose(), "/srv/project");
    let files = command(&settings.servers[1]);
    assert_eq!(files.args.iter().map(|arg| arg.expose()).collect::<Vec<_>>(), ["--root", "/srv/project"]);
    let api = remote(&settings.servers[2]);
    assert_eq!(api.headers[0].1.expose(), "Bearer canary-from-variable");
    assert_eq!(api.transport, RemoteTransport::Http);
    assert_eq!(settings.options.max_parallel, 10);
    let retry = &settings.servers[2].retry;
    assert_eq!(
        (retry.max_retries, retry.initial_delay, retry.max_delay),
        (3, Duration::from_secs(1), Duration::from_secs(10))
    );
}

#[test]
fn the_example_of_the_design_loads() {
    let settings = load(DESIGN);
    let rules = command(&settings.servers[0]).sandbox.rules().unwrap();
    assert_eq!(
        (rules.net, rules.write, rules.required),
        (NetworkAccess::None, Some(vec!["/srv/project".into()]), true)
    );
    assert!(
        matches!(&settings.servers[2].target, ServerTarget::Builtin(builtin) if builtin.builtin == BuiltinServer::Pm)
    );
    assert_eq!(settings.gateway.listen.port(), 7600);
}

#[test]
fn a_map_of_servers_and_the_words_of_other_programs_mean_the_same() {
    let list = load("servers: [{name: a, url: 'http://h/x', transport: http, disabled: true}]");
    for text in [
        "servers: {a: {url: 'http://h/x', type: streamable-http, disabled: true}}",
        "mcpServers: {a: {serverUrl: 'http://h/x', type: streamableHttp, disabled: true}}",
        "mcpServers: {a: {httpUrl: 'http://h/x', type: http, disabled: yes}}",
        "servers: {a: {name: a, endpoint: 'http://h/x', type: http, disabled: on}}",
    ] {
        assert_eq!(load(text).servers, list.servers, "{text}");
    }
    let env = load(&with_server("command: c\nenv: {A: 1}"));
    assert_eq!(load(&with_server("command: c\nenvs: {A: 1}")).servers, env.servers);
}

#[test]
fn json_with_comments_and_toml_load_too() {
    let json =
        "{ // mine\n \"mcpServers\": {\"a\": {\"command\": \"c\", \"args\": [\"-p\", 80], \"timeout\": 5000,}} }";
    let toml = "[servers.a]\ncommand = 'c'\nargs = ['-p', 80]\ntimeout = '5s'\n";
    let yaml = load("servers: {a: {command: c, args: [-p, 80], timeout: 5s}}").servers;
    assert_eq!(load_as(json, DocumentFormat::Json).unwrap().settings.servers, yaml);
    assert_eq!(load_as(toml, DocumentFormat::Toml).unwrap().settings.servers, yaml);
}

#[test]
fn what_a_server_does_not_say_comes_from_the_options() {
    let settings = load(
        "options: {timeout: 7s, maxTimeout: 1m, maxConnections: 5, retryPolicy: {maxRetries: 5, maxDelay: 20s}, cache: off, validate: {results: enforce}, naming: bare}\n\
         servers:\n- {name: a, command: c}\n- {name: b, command: c, timeout: 1s, retryPolicy: {maxRetries: 1}, cache: {ttl: 5s}, validate: off, naming: prefix}\n",
    );
    assert_eq!(settings.options.max_connections, Some(5));
    let (a, b) = (&settings.servers[0], &settings.servers[1]);
    assert_eq!((a.timeout.as_secs(), a.max_timeout.unwrap().as_secs(), a.retry.max_retries), (7, 60, 5));
    assert_eq!((a.cache.enabled, a.validate.results, a.naming), (false, ValidationMode::Enforce, None));
    assert_eq!((b.timeout.as_secs(), b.retry.max_retries, b.retry.max_delay.as_secs()), (1, 1, 20));
    assert_eq!((b.cache.enabled, b.cache.ttl.as_secs(), b.cache.max_entries), (true, 5, 1000));
    assert_eq!((b.validate.arguments, b.naming), (ValidationMode::Off, Some(ToolNaming::Prefix)));
}

#[test]
fn every_key_of_a_server_is_read() {
    let settings = load(&with_server(
        "command: c\ncwd: sub\nquietTools: [get_comments]\nrestart: never\nstart: lazy\ninstances: {pool: 3}\nidleTimeout: 5m\n\
         maxConnections: 4\nmaxInFlight: 8\nsandbox: default\nallow: ['read_*']\ndeny: [write]\nera: legacy\n\
         protocolVersion: 2025-06-18\ninstructions: off\n\
         tools: {read: {timeout: 2m, retry: on, cache: off, readOnly: true, idempotent: true, hidden: true, rename: r, description: d, quiet: true}}",
    ));
    let server = &settings.servers[0];
    assert_eq!(command(server).cwd.as_deref(), Some(Path::new("dir/sub")));
    assert_eq!(command(server).sandbox, SandboxPolicy::Default);
    assert!(server.tools["get_comments"].quiet && server.tools["read"].quiet && server.tools["read"].hidden);
    assert_eq!((server.tools["read"].retry, server.tools["read"].cache), (AutoSwitch::On, AutoSwitch::Off));
    assert_eq!(server.tools["read"].timeout, Some(Duration::from_secs(120)));
    assert_eq!(
        (server.restart, server.start, server.instances),
        (RestartPolicy::Never, StartPolicy::Lazy, InstancePolicy::Pool(3))
    );
    assert_eq!((server.max_connections, server.max_in_flight, server.era), (4, 8, EraChoice::Legacy));
    assert_eq!((server.filter.allow.join(""), server.filter.deny.join("")), ("read_*".into(), "write".into()));
    assert_eq!((server.protocol_version.as_deref(), server.instructions), (Some("2025-06-18"), false));
}

#[test]
fn the_defaults_of_the_sandbox_are_those_that_are_enforced() {
    let sandbox = |text: &str| command(&load(&with_server(&format!("command: c\n{text}"))).servers[0]).sandbox.clone();
    assert_eq!(sandbox("sandbox: {}"), SandboxPolicy::Rules(SandboxRules::default()));
    assert_eq!((sandbox(""), sandbox("sandbox: off")), (SandboxPolicy::Off, SandboxPolicy::Off));
    let some =
        sandbox("sandbox: {read: [a, /b], memory: 512MiB, cpu: 2, processes: 0, isolation: strict, caches: none}");
    let rules = some.rules().unwrap();
    assert_eq!(rules.read, Some(vec!["dir/a".into(), "/b".into()]));
    assert_eq!((rules.memory.0, rules.cpu, rules.processes), (512 << 20, Some(2), 0));
}

#[test]
fn all_problems_of_a_file_are_said_at_once() {
    check(
        "servers:\n  - name: a\n    comand: x\n    timeout: -5\n  - name: a\n    url: ftp://x\n  - url: http://x\n    headers: [a]\noptions:\n  maxParalel: 3\n",
        &[
            ("3:5", "did you mean `command`?"),
            ("4:14", "`timeout` cannot be `-5`"),
            ("5:11", "a second server is called `a`"),
            ("6:10", "`url` cannot be `ftp://x`"),
            ("7:5", "this server has no `name`"),
            ("8:14", "`headers` must be a map, but this is a list"),
            ("10:3", "did you mean `maxParallel`?"),
        ],
    );
}

#[test]
fn a_server_that_is_nothing_is_said_to_be_nothing() {
    check("servers:\n  - name: a\n    timeout: 5s\n", &[("2:5", "neither `command` nor `url` nor `builtin`")]);
    check("servers:\n  - name: a\n    colour: red\n", &[("2:5", "neither"), ("3:5", "unknown key `colour`")]);
}

#[test]
fn a_faulty_file_reads_as_its_golden_report() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/config/faulty.txt");
    let problems = load_as(include_str!("../../../tests/golden/config/faulty.yaml"), DocumentFormat::Yaml).unwrap_err();
    let report = crate::report::problems(&problems, crate::output::style::TextPaint::new(false)) + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &report).unwrap();
    }
    assert_eq!(report, std::fs::read_to_string(&path).unwrap_or_default(), "UPDATE_GOLDEN=1 writes it again");
    assert!(!report.contains("canary"));
}

#[test]
fn two_servers_that_get_one_name_from_variables_are_noticed() {
    let text = "servers:\n  - {name: a, command: c}\n  - {name: '${NONE:-a}', command: d}\n";
    check(text, &[("3:12", "a second server is called `a`")]);
}

#[test]
fn the_defaults_of_the_reference_are_those_of_the_library() {
    let settings = load_as("servers: {}\n", DocumentFormat::Yaml).unwrap().settings;
    assert_eq!(app::gateway::config(&settings, Vec::new()).limits, GatewayLimits::default());
    assert_eq!(app::gateway::hub(&settings, &[]).unwrap().page, PageLimit::default());
}

#[test]
fn two_keys_of_one_name_are_refused_since_calls_carry_the_name_alone() {
    let keys = "gateway:\n  auth:\n    keys:\n      - {name: a, key: one-key-of-some-length}\n      - {name: '${NONE:-a}', key: two-key-of-some-length}\n";
    check(keys, &[("5:16", "a second key is called `a`")]);
    let admin =
        "gateway: {auth: {adminKey: one-key-of-some-length, keys: [{name: admin, key: two-key-of-some-length}]}}\n";
    check(admin, &[("1:17", "a key is called `admin`, and so is `adminKey`")]);
}

#[test]
fn mistakes_of_a_server_are_pointed_at() {
    let target = "command: c\n";
    for (lines, place, words) in [
        ("command: c\nurl: http://x", "4:5", "both `command` and `url`"),
        ("url: http://x\ncommand: c", "3:5", "both `command` and `url`"),
        ("url: http://", "3:10", "`url` cannot be"),
        ("url: http://x\ntransport: stdio", "4:16", "expected one of auto, http"),
        ("url: http://x\ntransport: ws", "4:16", "does not fit an address that begins with http://"),
        ("url: ws://x\ntransport: sse", "4:16", "does not fit"),
        ("url: http://x\nheaders: {'bad name': 1}", "4:15", "is not a header's name"),
        ("command: c\ntransport: http", "4:16", "expected `stdio`"),
        ("builtin: pmm", "3:14", "did you mean `pm`?"),
        ("command: ''", "3:14", "`command` is empty"),
        ("command: [c, d]", "3:14", "a single value is expected here, but this is a list"),
        (&format!("{target}allow: ['[']"), "4:13", "expected a glob"),
        (&format!("{target}args: -y"), "4:11", "`args` must be a list"),
        (&format!("{target}timeout: 0"), "4:14", "longer than zero"),
        (&format!("{target}restart: always"), "4:14", "expected one of on-failure, never"),
        (&format!("{target}instances: {{pool: 0}}"), "4:23", "at least 1"),
        (&format!("{target}instances: many"), "4:16", "`shared`, `per-session`, `auto`"),
        (&format!("{target}sandbox: {{net: some}}"), "4:20", "expected one of none, loopback, all"),
        (&format!("{target}tools: {{read: {{timout: 1}}}}"), "4:20", "did you mean `timeout`?"),
        (&format!("{target}retryPolicy: {{initialDelay: 5s, maxDelay: 1s}}"), "4:37", "`maxDelay` is shorter"),
        (
            &format!("{target}retryPolicy: {{retryableErrors: [TIMEOUT, EXECUTION_FAILD]}}"),
            "4:46",
            "did you mean `EXECUTION_FAILED`?",
        ),
        (&format!("{target}retryPolicy: {{retryableErrors: [NOPE]}}"), "4:37", "expected an error code such as"),
        (&format!("{target}protocolVersion: 2025-01-01"), "4:22", "expected one of 2024-11-05"),
        (&format!("{target}env: {{A: 1}}\nenvs: {{B: 2}}"), "5:5", "`envs` says the same as `env` above"),
        (&format!("{target}envFile: none.env"), "4:14", "cannot be read"),
        (&format!("{target}env: {{A: '${{MISSING}}'}}"), "4:15", "the variable `MISSING` is not set"),
        (&format!("{target}cwd: ${{API_KEZ}}"), "4:10", "did you mean `API_KEY`?"),
    ] {
        check(&with_server(lines), &[(place, words)]);
    }
}

#[test]
fn mistakes_elsewhere_are_pointed_at() {
    for (text, place, words) in [
        ("- a\n", "1:1", "a configuration is a map, but this is a list"),
        ("servers: x\n", "1:10", "`servers` must be a list or a map"),
        ("servers: {a b: {command: c}}\n", "1:11", "`a-b` would do"),
        ("servers: {a: {name: b, command: c}}\n", "1:21", "called `a` already"),
        ("serverz: []\n", "1:1", "did you mean `servers`?"),
        ("mcp_servers: {}\n", "1:1", "looks like a file of Codex"),
        ("gateway: {auth: {}}\n", "1:17", "lets no client in"),
        ("gateway: {auth: {keys: [{name: x}]}}\n", "1:25", "exactly one of `key` and `hash`"),
        ("gateway: {auth: {keys: [{key: abc-key-of-some-length}]}}\n", "1:25", "`name` is missing"),
        (
            "gateway: {auth: {adminKey: a-key-of-some-length, jwt: {issuer: 'https://i'}}}\n",
            "1:50",
            "unknown key `jwt`",
        ),
        ("gateway: {auth: {keys: [{name: x, hash: abc}]}}\n", "1:41", "not a SHA-256 of 64 hexadecimal digits"),
        (
            "gateway: {auth: {keys: [{name: x, key: a-key-of-some-length, admin: true, readOnly: true}]}}\n",
            "1:85",
            "cannot be one that",
        ),
        ("gateway: {allowedOrigins: ['x']}\n", "1:28", "an origin such as"),
        ("gateway: {limits: {maxBodySize: lots}}\n", "1:33", "a size such as"),
        ("options: {cache: {ttl: x}}\n", "1:24", "a duration such as"),
        ("options: 5\n", "1:10", "`options` must be a map"),
        ("envFile: nothing.env\n", "1:10", "cannot be read"),
    ] {
        check(text, &[(place, words)]);
    }
}

#[test]
fn who_may_come_in_is_not_known_from_the_file_alone() {
    // Keys of `tsugi key add`, `--listen` and `--insecure` decide it when the gateway starts.
    let settings = load_as("gateway: {listen: '0.0.0.0:80'}\n", DocumentFormat::Yaml).unwrap().settings;
    assert_eq!(settings.gateway.listen.to_string(), "0.0.0.0:80");
    let settings =
        load_as("gateway: {auth: {adminKey: s3cret-enough-for-this}}\n", DocumentFormat::Yaml).unwrap().settings;
    assert!(settings.gateway.auth.admin_key.is_some());
}

#[test]
fn what_has_no_effect_is_a_warning() {
    let text = "servers:\n  - {name: a, url: 'http://x', env: {A: b}}\n  - {name: b, command: npx -y thing}\n";
    let warnings = load_as(text, DocumentFormat::Yaml).unwrap().warnings;
    assert_eq!(warnings.len(), 2);
    assert!(warnings[0].message.contains("`env` has no effect on a server with `url`"));
    assert!(warnings[1].message.contains("arguments go into `args`"));
}

#[test]
fn a_server_that_is_switched_off_may_use_variables_that_are_not_set() {
    let text =
        "servers:\n  - {name: a, url: 'http://${NONE}', disabled: true}\n  - {name: b, command: c, disabled: true}\n";
    let resolved = load_as(text, DocumentFormat::Yaml).unwrap();
    assert_eq!(resolved.warnings, [], "only who asks how things stand wants to hear of it");
    assert_eq!(resolved.dormant[0].message, "a is switched off: the variable `NONE` is not set");
    assert_eq!(resolved.settings.servers.len(), 1);
    check("servers:\n  - {name: a, url: nonsense, disabled: true}\n", &[("2:20", "`url` cannot be")]);
}

#[test]
fn an_environment_file_gives_variables_that_may_be_used() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("secrets.env"), "TOKEN_A=canary-a\n").unwrap();
    std::fs::write(directory.path().join("more.env"), "B=canary-b\nC=2\n").unwrap();
    let text =
        "envFile: secrets.env\nservers: [{name: x, command: c, envFile: more.env, env: {A: '${TOKEN_A}', C: 3}}]\n";
    let document =
        ConfigDocument::parse(&directory.path().join("tsugi.yaml"), text.to_owned(), DocumentFormat::Yaml).unwrap();
    let settings = resolve(&document, &environment()).unwrap().settings;
    let env: Vec<String> =
        command(&settings.servers[0]).env.iter().map(|(name, value)| format!("{name}={}", value.expose())).collect();
    assert_eq!(env, ["B=canary-b", "A=canary-a", "C=3"]);
    assert!(!format!("{settings:?}").contains("canary"));
}

/// A file with a secret in every place that can hold one.
const CANARIES: &str = "servers:\n\
    - name: a\n  command: c\n  args: [--token, canary-flag, --api-key=canary-joined, '${API_KEY}', ghp_canarycanarycanary]\n  \
    env: {GITHUB_TOKEN: canary-env, PLAIN: '${API_KEY}', DATABASE_URL: 'postgres://me:canary-db@h/x'}\n\
    - name: b\n  url: https://me:canary-password@h/x?api_key=canary-query&page=2\n  \
    headers: {Authorization: Bearer canary-header, X-Plain: invisible-header}\n\
    gateway: {auth: {keys: [{name: k, key: canary-gateway-long-enough}], adminKey: canary-admin-long-enough}}\n";

#[test]
fn no_secret_appears_in_what_settings_print() {
    let settings = load(CANARIES);
    let shown = format!("{settings:?} {}", serde_json::to_string(&settings).unwrap());
    assert!(!shown.contains("canary"), "{shown}");
    assert!(shown.contains("page=2") && !shown.contains("invisible"), "{shown}");
    assert_eq!(command(&settings.servers[0]).args[1].expose(), "canary-flag");
    assert_eq!(settings.secrets.len(), 13, "each secret is collected once");
}

#[test]
fn what_came_through_a_variable_or_a_header_is_masked_whatever_its_name() {
    let environment = Environment::from_pairs([("PLAIN", "canary-plain"), ("HOME", "/home/me"), ("PORT", "7601")]);
    let text = "servers:\n\
        - {name: a, command: c, args: ['${PLAIN}', '${HOME}/x'], env: {COLOUR: '${PLAIN}'}}\n\
        - {name: b, url: 'https://h/s/canaryB3dE5fG7hJ9kL/mcp', headers: {X-Team: canary-blue, X-Two: Token canary-two}}\n\
        gateway: {listen: '127.0.0.1:${PORT}'}\n";
    let document = ConfigDocument::parse(Path::new("tsugi.yaml"), text.to_owned(), DocumentFormat::Yaml).unwrap();
    let settings = resolve(&document, &environment).unwrap().settings;
    let shown = format!("{settings:?} {}", serde_json::to_string(&settings).unwrap());
    assert!(!shown.contains("canary"), "{shown}");
    assert!(shown.contains("/home/me/x") && shown.contains("https://h/s/***/mcp"), "{shown}");
    let mut secrets: Vec<&str> = settings.secrets.iter().map(Secret::expose).collect();
    secrets.sort_unstable();
    assert_eq!(secrets, ["Token canary-two", "canary-blue", "canary-plain", "canary-two", "canaryB3dE5fG7hJ9kL"]);
}

#[test]
fn a_program_is_started_in_the_directory_of_the_configuration() {
    let directory = |lines: &str| command(&load(&with_server(lines)).servers[0]).cwd.clone();
    assert_eq!(directory("command: c"), Some("dir".into()));
    assert_eq!(directory("command: c\ncwd: sub"), Some("dir/sub".into()));
    assert_eq!(directory("command: c\ncwd: /srv"), Some("/srv".into()));
    let alone = ConfigDocument::parse(Path::new("--command"), with_server("command: c"), DocumentFormat::Yaml).unwrap();
    let settings = resolve(&alone, &environment()).unwrap().settings;
    assert_eq!(command(&settings.servers[0]).cwd, None, "an ad-hoc server keeps the caller's directory");
}

#[test]
fn no_secret_appears_in_any_problem() {
    let mut seen = 0;
    // A mistake on every line in turn, of every kind: an unknown key, a broken value, broken syntax.
    for (index, line) in CANARIES.lines().enumerate() {
        for broken in [
            line.replacen(": ", "zz: ", 1),
            line.replacen(": ", ": [", 1),
            line.replacen(": ", ": {", 1),
            format!("{line} }} ]"),
            format!("{line} ${{MISSING}}"),
            format!("\t{line}"),
        ] {
            let lines: Vec<&str> =
                CANARIES.lines().enumerate().map(|(at, line)| if at == index { &broken } else { line }).collect();
            if let Err(problems) = load_as(&lines.join("\n"), DocumentFormat::Yaml) {
                seen += 1;
                let shown = format!("{problems} {problems:?}");
                assert!(!shown.contains("canary"), "{broken}\n{problems}");
            }
        }
    }
    assert!(seen > 40, "the mistakes must be mistakes: {seen}");
}

#[test]
fn a_file_cut_off_anywhere_neither_panics_nor_leaks() {
    let json = r#"{"mcpServers": {"a": {"command": "c", "env": {"API_KEY": "canary-env"}, "args": ["--token", "canary-arg"]}}} "#;
    let toml = "[servers.a]\ncommand = 'c'\n[servers.a.env]\nAPI_KEY = 'canary-env'\nX = 1\n";
    for (text, format) in [
        (CANARIES, DocumentFormat::Yaml),
        (DESIGN, DocumentFormat::Yaml),
        (json, DocumentFormat::Json),
        (toml, DocumentFormat::Toml),
    ] {
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            let shown = match load_as(&text[..end], format) {
                Ok(resolved) => format!("{resolved:?}"),
                Err(problems) => format!("{problems} {problems:?}"),
            };
            // A secret of which a part is cut off may be too short to be known as one.
            assert!(!shown.contains("canary-"), "{format:?} up to {end}: {shown}");
        }
    }
}

fn posted(text: &str, allow_commands: bool) -> Result<ServerSettings, ConfigProblems> {
    let document =
        ConfigDocument::parse(Path::new("(request)"), text.to_owned(), DocumentFormat::Json).map_err(ConfigProblems)?;
    resolve_posted(&document, allow_commands, &load("servers: []").options, &Default::default(), Path::new(""))
}

#[test]
fn what_an_entry_from_the_network_leaves_out_comes_from_the_options() {
    let options = load("options: {timeout: 7s, cache: on, validate: off, retryPolicy: {maxRetries: 1}}").options;
    let text = r#"{"name": "a", "url": "http://h/", "validate": {"results": "enforce"}}"#;
    let document = ConfigDocument::parse(Path::new("(request)"), text.to_owned(), DocumentFormat::Json).unwrap();
    let server = resolve_posted(&document, false, &options, &Default::default(), Path::new("")).unwrap();
    assert_eq!((server.timeout, server.cache.enabled, server.retry.max_retries), (Duration::from_secs(7), true, 1));
    assert_eq!((server.validate.arguments, server.validate.results), (ValidationMode::Off, ValidationMode::Enforce));
}

#[test]
fn a_tool_can_be_checked_in_another_way_than_its_server() {
    let server =
        &load(&with_server("command: c\nvalidate: warn\ntools: {a: {validate: {results: off}}, b: {quiet: yes}}"))
            .servers[0];
    let own = ValidatePolicy { arguments: ValidationMode::Warn, results: ValidationMode::Off };
    assert_eq!((server.tools["a"].validate, server.tools["b"].validate), (Some(own), None));
}

#[test]
fn a_breaker_can_be_set_and_switched_off() {
    let breaker = |line: &str| load(&with_server(&format!("command: c\n{line}"))).servers[0].breaker;
    let usual = BreakerPolicy::default();
    assert_eq!((breaker("breaker: on"), breaker("timeout: 1s")), (Some(usual), Some(usual)));
    assert_eq!((breaker("breaker: off"), breaker("breaker: {enabled: no}")), (None, None));
    assert_eq!(breaker("breaker: {failureThreshold: 2}"), Some(BreakerPolicy { failure_threshold: 2, ..usual }));
}

#[test]
fn a_state_key_is_long_and_never_shown() {
    let text = "gateway: {stateKey: canary-0123456789-0123456789-0123456789}";
    let settings = load(text);
    assert!(settings.gateway.state_key.is_some());
    assert!(!format!("{settings:?} {}", serde_json::to_string(&settings).unwrap()).contains("canary"));
    check("gateway: {stateKey: canary-short}\n", &[("1:21", "at least 32 characters")]);
    assert!(!problems("gateway: {stateKey: canary-short}\n")[0].contains("canary"));
}

#[test]
fn a_misspelt_command_is_one_mistake() {
    for word in ["comand", "commnad", "cmd", "Command", "commands", "exec", "program", "executable", "run"] {
        check(&with_server(&format!("{word}: x")), &[("3:5", "did you mean `command`?")]);
    }
    check(&with_server("uri: http://x"), &[("3:5", "did you mean `url`?")]);
    check(&with_server("timeout: 1s"), &[("2:5", "neither `command` nor `url`")]);
}

#[test]
fn keys_that_did_nothing_are_no_longer_known() {
    check("gateway: {pin: enforce}\n", &[("1:11", "unknown key `pin`")]);
    check("gateway: {limits: {depth: 3}}\n", &[("1:20", "unknown key `depth`")]);
}

#[test]
fn an_entry_from_the_network_may_not_run_a_program_unless_allowed() {
    let text = r#"{"name": "a", "command": "sh", "args": ["-c", "id"]}"#;
    assert!(posted(text, false).unwrap_err().to_string().contains("not allowed"));
    assert_eq!(command(&posted(text, true).unwrap()).program.expose(), "sh");
    assert!(posted(r#"{"name": "a", "url": "http://h/x"}"#, false).is_ok());
}

#[test]
fn an_entry_from_the_network_never_gets_a_variable_or_a_file_of_ours() {
    for field in [
        r#""url": "http://h/${API_KEY}""#,
        r#""url": "http://h/", "headers": {"X": "${API_KEY}"}"#,
        r#""url": "http://h/", "headers": {"X": "${file:/etc/hostname}"}"#,
        r#""url": "http://h/", "headers": {"X": "${X:-${API_KEY}}"}"#,
        r#""url": "http://h/", "timeout": "${API_KEY}""#,
        r#""url": "http://h/", "tools": {"t": {"description": "${API_KEY}"}}"#,
        r#""url": "http://h/", "allow": ["${API_KEY}"]"#,
        r#""command": "${API_KEY}""#,
        r#""command": "c", "args": ["${API_KEY}"]"#,
        r#""command": "c", "env": {"X": "${API_KEY}"}"#,
        r#""command": "c", "cwd": "${HOME}""#,
        r#""command": "c", "envFile": "/etc/hostname""#,
        r#""command": "c", "sandbox": {"read": ["${HOME}"]}"#,
        r#""builtin": "pm", "args": ["${API_KEY}"]"#,
    ] {
        assert!(posted(&format!("{{\"name\": \"a\", {field}}}"), true).is_err(), "{field}");
    }
}
