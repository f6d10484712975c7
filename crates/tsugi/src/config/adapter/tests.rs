//! Each program's real-shaped file against its golden result, which must load again.

use std::path::Path;

use super::write::{DraftVerdict, ExistingServers, ImportOutput, SECRETS_FILE, TakeOver, write, write_judged};
use super::*;
use crate::config::env::Environment;
use crate::config::layer;
use crate::config::settings::CheckedSettings;

/// The program, the file as it lies below the home directory, and the folder of its golden files.
const FILES: [(ClientProgram, &str, &str); 8] = [
    (
        ClientProgram::ClaudeDesktop,
        ".config/Claude/claude_desktop_config.json",
        "claude-desktop/claude_desktop_config.json",
    ),
    (ClientProgram::ClaudeCode, "project/.mcp.json", "claude/.mcp.json"),
    (ClientProgram::Cursor, "project/.cursor/mcp.json", "cursor/mcp.json"),
    (ClientProgram::VsCode, "project/.vscode/mcp.json", "vscode/mcp.json"),
    (ClientProgram::Gemini, ".gemini/settings.json", "gemini/settings.json"),
    (ClientProgram::Codex, ".codex/config.toml", "codex/config.toml"),
    (ClientProgram::Windsurf, ".codeium/windsurf/mcp_config.json", "windsurf/mcp_config.json"),
    (ClientProgram::Zed, ".config/zed/settings.json", "zed/settings.json"),
];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/import").join(name)
}

fn import_file(place: &str, file: &str) -> ImportedFile {
    let text = std::fs::read_to_string(golden(file)).unwrap();
    let context = ImportContext { home: Some("/home/me".into()), directory: None };
    import(&Path::new("/home/me").join(place), text, None, &context).unwrap().remove(0)
}

/// One file of a program, read as if it lay in the current project.
fn import_text(client: ClientProgram, text: &str) -> ImportedFile {
    import(Path::new("mcp.json"), text.to_owned(), Some(client), &ImportContext::default()).unwrap().remove(0)
}

/// Compares with a golden file, or writes it with `UPDATE_GOLDEN=1`.
fn compare(path: &Path, text: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, text).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(text, expected, "{} differs; UPDATE_GOLDEN=1 writes it anew", path.display());
}

/// Loads what was written, as the command would, with the variables that the files need.
fn load(written: &ImportOutput) -> CheckedSettings {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("tsugi.yaml"),
        written.yaml.replace("/home/me", directory.path().to_str().unwrap()),
    )
    .unwrap();
    let secrets = super::write::secret_lines(&written.secrets);
    std::fs::write(directory.path().join(SECRETS_FILE), secrets).unwrap();
    std::fs::create_dir_all(directory.path().join("project")).unwrap();
    std::fs::write(directory.path().join("project/.env"), "FROM_FILE=1\n").unwrap();
    std::fs::create_dir_all(directory.path().join(".secrets")).unwrap();
    std::fs::write(directory.path().join(".secrets/key"), "canary-in-file\n").unwrap();
    let environment = Environment::from_pairs([
        ("HOME", directory.path().to_str().unwrap()),
        ("SENTRY_TOKEN", "canary-sentry"),
        ("CLAUDE_PLUGIN_ROOT", "/plugin"),
        ("MY_API_KEY", "canary-mine"),
        ("PERPLEXITY_KEY", "canary-asked"),
        ("REGION", "eu"),
        ("FIGMA_OAUTH_TOKEN", "canary-figma"),
        ("TRACE_ID", "trace"),
        ("GITHUB_TOKEN", "canary-github"),
        ("MCP_HOST", "mcp.example.com"),
    ]);
    let resolved = layer::read(&directory.path().join("tsugi.yaml"), &environment);
    resolved.unwrap_or_else(|problems| panic!("{problems}\n{}", written.yaml)).settings
}

#[test]
fn each_program_s_file_becomes_its_golden_configuration_which_loads() {
    for (client, place, file) in FILES {
        let imported = import_file(place, file);
        assert_eq!(imported.client, client, "recognised by itself");
        let written = write(&[imported]);
        compare(&golden(file).with_file_name("expected.tsugi.yaml"), &written.yaml);
        assert!(!load(&written).servers.is_empty());
    }
}

#[test]
fn no_secret_of_an_imported_file_is_written_into_the_configuration_or_printed() {
    for (_, place, file) in FILES {
        let imported = import_file(place, file);
        let warnings = imported.warnings().join("\n");
        let printed = format!("{imported:?}");
        let written = write(&[imported]);
        let settings = load(&written);
        for shown in [&warnings, &printed, &written.yaml, &format!("{written:?}"), &format!("{settings:?}")] {
            assert!(!shown.contains("canary"), "{file}: {shown}");
        }
    }
}

#[test]
fn secrets_arrive_in_the_settings_all_the_same() {
    let exposed = |place: &str, file: &str| {
        let settings = load(&write(&[import_file(place, file)]));
        settings.secrets.iter().map(|secret| secret.expose().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert!(exposed(FILES[0].1, FILES[0].2).contains("ghp_canarycanarycanarycanary"));
    assert!(exposed(FILES[1].1, FILES[1].2).contains("canary-db-password"));
    assert!(exposed(FILES[2].1, FILES[2].2).contains("canary-cursor-key"));
    assert!(exposed(FILES[5].1, FILES[5].2).contains("canary-docs-token"));
    assert!(exposed(FILES[6].1, FILES[6].2).contains("Bearer canary-in-file"));
    assert!(exposed(FILES[7].1, FILES[7].2).contains("canary-zed-token"));
}

#[test]
fn all_programs_together_become_one_configuration_without_a_clash() {
    let imports: Vec<ImportedFile> = FILES.iter().map(|(_, place, file)| import_file(place, file)).collect();
    let count: usize = imports.iter().map(ImportedFile::count).sum();
    let written = write(&imports);
    compare(&golden("all.tsugi.yaml"), &written.yaml);
    let settings = load(&written);
    assert_eq!(settings.servers.len(), count);
    let remote = settings.servers.iter().filter(|server| server.name.starts_with("remote")).count();
    assert_eq!(remote, 3, "three programs have a server called `remote`, each its own");
}

#[test]
fn a_server_that_two_programs_share_appears_once() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "canary-same"}}}}"#;
    let one = import_text(ClientProgram::ClaudeCode, text);
    let other = import_text(ClientProgram::Cursor, text);
    assert_eq!(load(&write(&[one, other])).servers.len(), 1);
}

#[test]
fn the_files_of_a_home_directory_are_found() {
    let home = tempfile::tempdir().unwrap();
    for (_, place, file) in FILES {
        let path = home.path().join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::copy(golden(file), path).unwrap();
    }
    let found = ClientProgram::find(&home.path().join("project"), Some(home.path()));
    let mut clients: Vec<&str> = found.iter().map(|(client, _)| client.word()).collect();
    clients.sort_unstable();
    assert_eq!(clients, ["claude", "claude-desktop", "codex", "cursor", "gemini", "vscode", "windsurf", "zed"]);
}

#[test]
fn a_broken_file_is_pointed_at_and_an_unknown_one_is_asked_about() {
    let broken =
        import(Path::new(".mcp.json"), "{\"mcpServers\": {".to_owned(), None, &ImportContext::default()).unwrap_err();
    assert!(broken.to_string().contains(".mcp.json:1:"), "{broken}");
    let unknown = import(Path::new("x.json"), "{\"a\": 1}".to_owned(), None, &ImportContext::default()).unwrap_err();
    assert!(unknown.to_string().contains("one of claude-desktop, claude"), "{unknown}");
}

#[test]
fn names_of_servers_and_values_cannot_break_out_of_the_yaml() {
    let text = r#"{"mcpServers": {"a\n  - name: evil": {"command": "x\"\n  - name: evil", "args": ["\n- b"], "note\nservers": 1}}}"#;
    let written = write(&[import_text(ClientProgram::ClaudeCode, text)]);
    assert_eq!(load(&written).servers.len(), 1, "{}", written.yaml);
}

#[test]
fn a_secret_with_a_dollar_sign_in_it_is_a_secret() {
    for client in [ClientProgram::ClaudeCode, ClientProgram::Cursor, ClientProgram::VsCode, ClientProgram::Windsurf] {
        let entry = r#"{"a": {"command": "x", "args": ["--token", "canary$1", "--key=canary$2"], "env": {"API_KEY": "sk-canary-abc$def0123456789"}}, "b": {"url": "https://h/?api_key=canary$3"}}"#;
        let text = format!("{{{:?}: {entry}}}", client.servers_key());
        let written = write(&[import_text(client, &text)]);
        assert!(!written.yaml.contains("canary"), "{client:?}: {}", written.yaml);
        let settings = load(&written);
        let exposed: Vec<String> = settings.secrets.iter().map(|secret| secret.expose().to_owned()).collect();
        for secret in ["canary$1", "canary$2", "sk-canary-abc$def0123456789"] {
            assert!(exposed.contains(&secret.to_owned()), "{client:?}: {secret} in {exposed:?}");
        }
    }
}

#[test]
fn a_reference_stays_readable_and_the_token_beside_it_does_not() {
    let text = r#"{"mcpServers": {"a": {"url": "https://h/", "headers": {"Authorization": "Bearer ${env:TOKEN}", "X-Api-Key": "canary0123456789abcdef${env:SUFFIX}"}}}}"#;
    let yaml = write(&[import_text(ClientProgram::Cursor, text)]).yaml;
    assert!(yaml.contains("Bearer ${TOKEN}") && yaml.contains("${SUFFIX}") && !yaml.contains("canary"), "{yaml}");
}

#[test]
fn a_key_that_stands_twice_is_a_warning_and_the_last_one_counts() {
    let text = r#"{"mcpServers": {"a": {"command": "first"}, "b": {"command": "x"}, "a": {"command": "last"}}}"#;
    let imported = import_text(ClientProgram::Cursor, text);
    assert!(imported.warnings()[0].contains("`a` stands here a second time"), "{:?}", imported.warnings());
    let yaml = write(&[imported]).yaml;
    assert!(yaml.contains("command: last") && yaml.contains("name: b") && !yaml.contains("first"), "{yaml}");
}

/// The outcome of the server `a` in a user's file of Cursor.
fn outcome(entry: &str) -> TakeOver {
    let text = format!("{{\"mcpServers\": {{\"a\": {entry}}}}}");
    let context = ImportContext { home: Some("/home/me".into()), directory: Some("/home/me/project".into()) };
    let imports = import(Path::new("/home/me/.cursor/mcp.json"), text, Some(ClientProgram::Cursor), &context).unwrap();
    write_judged(&imports, &ExistingServers::default(), &|_, _| DraftVerdict::Usable).servers.remove(0).outcome
}

#[test]
fn only_servers_that_will_work_are_taken_over() {
    for entry in [
        r#"{"command": "uvx", "args": ["mcp-server-time"]}"#,
        r#"{"url": "https://h.example/mcp", "headers": {"Authorization": "Bearer ${env:T}"}}"#,
        r#"{"url": "https://h.example/mcp?api_key=canary-key"}"#,
        r#"{"url": "http://localhost:3000/mcp"}"#,
        r#"{"url": "http://192.168.1.7/mcp"}"#,
    ] {
        assert_eq!(outcome(entry), TakeOver::Taken, "{entry}");
    }
    let is_off = |entry: &str| matches!(outcome(entry), TakeOver::SwitchedOff(_));
    assert!(is_off(r#"{"url": "https://mcp.sentry.dev/mcp"}"#), "it wants a sign-in");
    assert!(is_off(r#"{"command": "x", "disabled": true}"#));
    let home = r#"{"command": "server-filesystem", "args": ["${workspaceFolder}"]}"#;
    assert!(matches!(outcome(home), TakeOver::LeftOut(why) if why.contains("workspace")));
}
