//! The words of the command about itself.

use super::world::{World, golden};

#[test]
fn every_command_explains_itself() {
    let world = World::new();
    for command in [
        "tools",
        "call",
        "batch",
        "prompts",
        "prompt",
        "resources",
        "read",
        "servers",
        "check",
        "import",
        "completions",
    ] {
        let ran = world.run(&[command, "--help"]).expect(0);
        golden().check(&format!("help/{command}.txt"), &ran.stdout);
    }
}

#[test]
fn the_overview_names_every_command_and_the_exit_codes() {
    let help = World::new().run(&["--help"]).expect(0).stdout;
    for word in
        ["tools", "call", "batch", "prompts", "resources", "read", "servers", "check", "import", "130 interrupted"]
    {
        assert!(help.contains(word), "{word} is missing in {help}");
    }
}

#[test]
fn a_misspelt_command_is_recognised() {
    let ran = World::new().run(&["tolls"]).expect(2);
    assert!(ran.stderr.contains("tools"), "{}", ran.stderr);
    assert_eq!(ran.stdout, "");
}

#[test]
fn shells_and_man_get_what_they_want() {
    let world = World::new();
    for (shell, sign) in [("bash", "_tsugi()"), ("zsh", "#compdef tsugi"), ("fish", "complete -c tsugi")] {
        assert!(world.run(&["completions", shell]).expect(0).stdout.contains(sign), "{shell}");
    }
    assert!(world.run(&["man"]).expect(0).stdout.contains(".TH tsugi"));
}
