//! What real programs print when they fail, and what it means.

use super::clue;
use super::*;

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

#[test]
fn runners_that_do_not_find_a_package_are_understood() {
    for text in [
        "npm error code E404\nnpm error 404 Not Found - GET https://registry.npmjs.org/nope",
        "npm ERR! 404  'nope@*' is not in this registry.",
        "  × No solution found when resolving tool dependencies:\n  ╰─▶ Because nope was not found in the package registry and you require nope",
        "ERROR: No matching distribution found for nope",
    ] {
        let cause = clue::no_package(&lines(text), Some("nope"));
        assert!(
            matches!(&cause, Some(FailureCause::PackageMissing { package, .. }) if package == "nope"),
            "{text}: {cause:?}"
        );
    }
    let module = clue::no_package(&lines("ModuleNotFoundError: No module named 'mcp'"), None);
    assert!(matches!(module, Some(FailureCause::PackageMissing { package, .. }) if package == "mcp"));
}

#[test]
fn a_download_that_was_interrupted_is_told_from_a_package_that_does_not_exist() {
    let text = "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /home/ann/.npm/_npx/a3241bba59c344f5/node_modules/x/index.js";
    let folder = "/home/ann/.npm/_npx/a3241bba59c344f5".to_owned();
    assert_eq!(clue::broken_cache(&lines(text)), Some(FailureCause::CacheBroken { folder }));
    assert_eq!(clue::broken_cache(&lines("Error: Cannot find module '/srv/index.js'")), None);
}

#[test]
fn versions_that_do_not_fit_are_told_apart() {
    let node = clue::wrong_version(&lines(
        "npm error engine Unsupported engine\nnpm error notsup Required: {\"node\":\">=22\"}",
    ));
    assert!(matches!(node, Some(FailureCause::WrongNode { .. })));
    let python =
        clue::wrong_version(&lines("Because the current Python version (3.9.2) does not satisfy Python>=3.10"));
    assert!(matches!(python, Some(FailureCause::WrongPython { .. })));
    assert_eq!(clue::wrong_version(&lines("listening")), None);
}

#[test]
fn the_variable_that_is_wanted_is_named() {
    for (text, name) in [
        ("Error: BRAVE_API_KEY environment variable is required", "BRAVE_API_KEY"),
        ("GITHUB_PERSONAL_ACCESS_TOKEN not set", "GITHUB_PERSONAL_ACCESS_TOKEN"),
        ("KeyError: 'TOKEN'", "TOKEN"),
        ("ERROR: Missing required environment variable: SLACK_TEAM_ID", "SLACK_TEAM_ID"),
    ] {
        assert_eq!(clue::variable(&lines(text)).as_deref(), Some(name), "{text}");
    }
    for text in ["ERROR something is required", "WARNING missing config", "all set"] {
        assert_eq!(clue::variable(&lines(text)), None, "{text}");
    }
}

#[test]
fn a_denied_path_is_found_in_the_words_of_each_language() {
    for text in [
        "Error: EACCES: permission denied, open '/data/x'",
        "PermissionError: [Errno 13] Permission denied: '/data/x'",
        "sh: 1: cannot create /data/x: Permission denied",
        "sh: 1: cannot create /data/x: Read-only file system",
    ] {
        assert_eq!(clue::denied(&lines(text)), Some(Some("/data/x".to_owned())), "{text}");
    }
}

#[test]
fn our_own_project_server_says_why_it_does_not_start() {
    let unknown =
        r#"{"error":{"code":"not_found","message":"Agent not found: agt_x","retryable":false,"hint":"register it"}}"#;
    let agent = "agt_x".to_owned();
    assert_eq!(clue::project_server(&lines(unknown), Some("agt_x")), Some(FailureCause::AgentUnknown { agent }));
    let other = r#"{"error":{"code":"invalid","message":"the file is no database","hint":"name another"}}"#;
    let cause =
        FailureCause::ProjectServer { message: "the file is no database".into(), hint: Some("name another".into()) };
    assert_eq!(clue::project_server(&lines(other), Some("agt_x")), Some(cause));
    assert_eq!(clue::project_server(&lines("{\"error\": 7}\nlistening"), None), None);
}

#[test]
fn a_python_module_that_is_run_and_missing_is_named() {
    let module = clue::no_package(&lines("/usr/bin/python3: No module named nothing_here"), None);
    assert!(matches!(module, Some(FailureCause::PackageMissing { package, .. }) if package == "nothing_here"));
}

#[test]
fn the_telling_line_about_node_is_quoted() {
    let text = "    throw new ERR_UNKNOWN_BUILTIN_MODULE(url);\n          ^\n\nError [ERR_UNKNOWN_BUILTIN_MODULE]: No such built-in module: node:sqlite";
    let Some(FailureCause::WrongNode { line }) = clue::wrong_version(&lines(text)) else { panic!("not recognised") };
    assert!(line.ends_with("No such built-in module: node:sqlite"), "{line}");
}

#[test]
fn a_misspelt_script_is_told_from_a_missing_package() {
    for (text, script) in [
        ("Error: Cannot find module '/srv/nothere.js'", "nothere.js"),
        ("python3: can't open file '/srv/nothere.py': [Errno 2] No such file or directory", "./nothere.py"),
        ("sh: 0: cannot open nothere.sh: No such file or directory", "nothere.sh"),
    ] {
        let cause = clue::missing_script(&lines(text), script);
        assert_eq!(cause, Some(FailureCause::ScriptMissing { script: script.to_owned() }), "{text}");
    }
    assert_eq!(clue::missing_script(&lines("Error: Cannot find module 'zod'"), "index.js"), None);
}

#[test]
fn reasons_of_the_wire_have_their_causes() {
    for (reason, word) in [
        (FaultReason::ConnectionRefused, Some("port-refused")),
        (FaultReason::HttpStatus(401), Some("unauthorized")),
        (FaultReason::HttpStatus(404), Some("not-mcp")),
        (FaultReason::NotMcp, Some("not-mcp")),
        (FaultReason::HttpStatus(503), None),
        (FaultReason::ProgramNotFound, None),
    ] {
        assert_eq!(wire_cause(reason).as_ref().map(FailureCause::word), word, "{reason:?}");
    }
}
