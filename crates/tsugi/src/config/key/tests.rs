//! The reference page is made from the keys, and the keys are sound.

use std::fmt::Write as _;
use std::path::Path;

use super::*;
use crate::config::env::VARIABLES;
use crate::config::file::NAMES;
use crate::config::settings::{TABLES, retry, server};

const HEAD: &str = "\
# Configuration

<!-- Generated from the settings in `crates/tsugi/src/config/settings`. `UPDATE_GOLDEN=1 cargo nextest run -p tsugi` writes it again. -->

tsugi is configured by one file, in YAML, JSON (comments and trailing commas are fine) or TOML.

```yaml
servers:
  - name: files
    command: npx
    args: [\"-y\", \"@modelcontextprotocol/server-filesystem\", \"${PROJECT_ROOT:-.}\"]
  - name: remote
    url: https://example.com/mcp
    headers: { Authorization: \"Bearer ${API_KEY}\" }
```

## Which file

The first of these that is there:

1. `--command` or `--url`: an ad-hoc server, and no file.
2. `--config FILE`.
3. The variable `TSUGI_CONFIG`.
4. The variable `MCP_URLS`.
";

const VALUES: &str = "
`config.yaml` counts only if it has a line that begins with `servers:` or `mcpServers:`, since other programs use the name too.
Files of other programs are turned into ours by `tsugi import`.

## How values are written

- A **duration** is `30s`, `1500ms`, `2m`, `1h`, or a bare number of milliseconds.
- A **size** is `4MiB`, `64KB`, or a bare number of bytes.
- A **glob** is `read_*`, `{get,list}_?`, and the like.
- A **path** is meant from the directory of the file. Programs are started in that directory too, unless `cwd` says otherwise.
- A switch is `true` or `false`; `yes`, `no`, `on` and `off` are understood.

In every value, but not in keys, these are replaced:

| written | becomes |
| --- | --- |
| `${NAME}` | the variable; it is an error if it is not set |
| `${NAME:-default}` | the variable, or the default where it is not set or empty |
| `${NAME:?message}` | the variable, or an error with the message |
| `${env:NAME}` | the same as `${NAME}` |
| `${file:path}` | the content of a file, without its last line break; a gateway notices when it changes |
| `${command:name}` | what a program of `secrets.commands` writes |
| `$$` | a dollar sign |

Inside `[ ]` and `{ }` of YAML, a value with `${…}` needs quotes.
A server that is `disabled` may use variables that are not set.

These values are never shown, in errors, logs or the dashboard: every value of `headers`, every value that came through `${…}` or an environment file (except paths, and variables such as `HOME` and `USER`), values whose name sounds secret, such as `API_KEY`, and passwords and tokens in addresses.

## Editors

`tsugi config schema` prints a JSON Schema of this file, and `tsugi init` writes it as `tsugi.schema.json` beside the configuration.
With this first line, editors that use the YAML language server complete and check the file, without a network:

```yaml
# yaml-language-server: $schema=./tsugi.schema.json
servers: [{ name: demo, builtin: demo }]
```
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    let names = NAMES.map(|name| format!("`{name}`")).join(", ");
    writeln!(page, "5. In the current directory: {names}.").unwrap();
    writeln!(page, "6. The same names in the user's own directory, `~/.config/tsugi/`.").unwrap();
    page.push_str(VALUES);
    page.push_str("\n## Variables that tsugi reads\n\n| variable | meaning |\n| --- | --- |\n");
    for variable in VARIABLES {
        writeln!(page, "| `{}` | {} |", variable.name, variable.meaning).unwrap();
    }
    for table in TABLES {
        section(&mut page, table);
    }
    page
}

fn section(page: &mut String, table: &SettingTable) {
    let title = if table.path.is_empty() { "The file".to_owned() } else { format!("`{}`", table.path) };
    writeln!(page, "\n## {title}\n\n{}\n", table.about).unwrap();
    page.push_str("| key | value | default | meaning |\n| --- | --- | --- | --- |\n");
    for key in table.keys {
        let names: Vec<String> = key.names().map(|name| format!("`{name}`")).collect();
        let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
        writeln!(page, "| {} | {} | {default} | {} |", names.join(", "), key.shape.words(), key.meaning).unwrap();
    }
}

#[test]
fn the_reference_page_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, page()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(page(), written, "UPDATE_GOLDEN=1 writes it again");
}

#[test]
fn no_word_means_two_keys_of_one_map() {
    for table in TABLES {
        let mut words: Vec<&str> = table.keys.iter().flat_map(|key| key.names()).collect();
        let count = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), count, "{}", table.path);
    }
}

#[test]
fn the_nearest_key_is_found_whatever_its_spelling() {
    for (word, key) in
        [("timout", "timeout"), ("max_retries", "maxRetries"), ("retrypolicy", "retryPolicy"), ("comand", "command")]
    {
        let table = if key == "maxRetries" { &retry::TABLE } else { &server::TABLE };
        assert_eq!(table.nearest(word), Some(key));
    }
    assert_eq!(server::TABLE.nearest("zzz"), None);
}

/// The golden schema, which editors get.
#[test]
fn the_schema_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/config/schema.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, schema::text()).unwrap();
    }
    assert_eq!(schema::text(), std::fs::read_to_string(&path).unwrap_or_default(), "UPDATE_GOLDEN=1 writes it again");
}

/// Every configuration among the golden files, and whether it is valid.
fn golden_configurations() -> Vec<(String, String)> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut folders = vec![golden];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "yaml") {
                found.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

#[test]
fn the_schema_accepts_every_golden_configuration_and_refuses_the_faulty_one() {
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema::text()).unwrap()).unwrap();
    let configurations = golden_configurations();
    assert!(configurations.len() > 8, "{}", configurations.len());
    for (path, text) in configurations {
        // The seed's example is not YAML in one place.
        let text = text.replace("command: @akiojin/mcp-filesystem", "command: \"@akiojin/mcp-filesystem\"");
        let value: serde_json::Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|error| format!("{error} at {}", error.instance_path())).collect();
        assert_eq!(errors.is_empty(), !path.ends_with("faulty.yaml"), "{path}: {errors:#?}");
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema::text()).unwrap()).unwrap();
    for (text, is_valid) in [
        ("servers: [{name: a, command: c, timeout: 30s, restart: never, sandbox: {net: none}}]", true),
        ("servers: {a: {url: 'http://h/', transport: sse, breaker: off, instances: {pool: 3}}}", true),
        ("servers: {a: {command: c, instances: auto}}", true),
        ("servers: {a: {command: c, instances: automatic}}", false),
        ("gateway: {limits: {maxBodySize: 4MiB}, auth: {keys: [{name: k, key: '${K}', perMinute: 5}]}}", true),
        ("options: {timeout: '${T}', cache: on, validate: {results: off}}", true),
        ("servers: [{name: a, comand: c}]", false),
        ("servers: [{name: a, command: c, timeout: soon}]", false),
        ("servers: [{name: a, command: c, restart: always}]", false),
        ("servers: [{name: a, command: c, maxInFlight: 0}]", false),
        ("gateway: {drain: 5s}", false),
    ] {
        let value: serde_json::Value = serde_saphyr::from_str(text).unwrap();
        assert_eq!(validator.is_valid(&value), is_valid, "{text}");
    }
}

/// A default that a library has and one that a key has are read from different places, so they are compared here.
#[test]
fn a_configuration_with_every_default_written_down_means_the_same_as_an_empty_one() {
    let written = |table: &SettingTable, without: &[&str]| {
        let keys = table.keys.iter().filter(|key| !key.default.is_empty() && !without.contains(&key.name));
        keys.map(|key| format!("{}: {}", key.name, key.default)).collect::<Vec<_>>().join(", ")
    };
    use crate::config::settings::{breaker, gateway, limits, options, pin, sandbox, validate};
    let full = format!(
        "options: {{{}, retryPolicy: {{{}}}, validate: {{{}}}, pin: {{{}}}}}\ngateway: {{{}, limits: {{{}}}}}\n\
         servers: [{{name: a, command: c, {}, breaker: {{{}}}, sandbox: {{{}}}}}]\n",
        written(&options::TABLE, &[]),
        written(&retry::TABLE, &[]),
        written(&validate::TABLE, &[]),
        written(&pin::TABLE, &[]),
        written(&gateway::TABLE, &[]),
        written(&limits::TABLE, &[]),
        written(&server::TABLE, &["breaker", "sandbox"]),
        written(&breaker::TABLE, &[]),
        written(&sandbox::TABLE, &[]),
    );
    let load = |text: String| {
        let document = crate::config::document::ConfigDocument::parse(
            Path::new("tsugi.yaml"),
            text.clone(),
            crate::config::document::DocumentFormat::Yaml,
        );
        let document = document.unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
        let resolved = crate::config::resolve::resolve(&document, &Default::default());
        resolved.unwrap_or_else(|problems| panic!("{problems}\n{text}")).settings
    };
    let bare = "servers: [{name: a, command: c, sandbox: {}}]\n".to_owned();
    assert_eq!(load(full), load(bare));
}
