//! `tsugi key`: whoever has one comes in, until it is revoked.

use crate::world::{World, until};

#[test]
fn a_running_gateway_follows_the_keys() {
    let world = World::new();
    let serving = world.serve(&[]);
    let status = |key: &str| {
        let bearer = format!("Bearer {key}");
        let headers: &[(&str, &str)] = if key.is_empty() { &[] } else { &[("Authorization", &bearer)] };
        serving.ask("GET", "/mcp/tools", headers, "").0.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(status(""), "200");

    let made = world.run(&["key", "add", "ann", "--allow", "demo/echo"]);
    let key = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    assert!(key.starts_with("tsugi_"), "{key}");
    until(|| status("") == "401", || status(""));
    let bearer = format!("Bearer {key}");
    let (_, tools) = serving.ask("GET", "/mcp/tools", &[("Authorization", &bearer)], "");
    assert!(tools.contains("\"echo\"") && !tools.contains("\"greet\""), "{tools}");
    let kept = std::fs::read_to_string(world.path().join(".local/state/tsugi/keys.json")).unwrap();
    assert!(kept.contains("\"ann\"") && !kept.contains(&key), "{kept}");
    assert_eq!(world.run(&["status", "--gateway", &serving.url, "--key", &key]).status.code(), Some(5));

    let second = world.run(&["key", "add", "ops", "--admin"]);
    let admin = String::from_utf8(second.stdout).unwrap().trim().to_owned();
    until(|| status(&admin) == "200", || status(&admin));
    assert_eq!(world.run(&["status", "--gateway", &serving.url, "--key", &admin]).status.code(), Some(0));
    assert!(world.run(&["key", "revoke", "ann"]).status.success());
    until(|| status(&key) == "401", || status(&key));
    assert_eq!(world.run(&["key", "revoke", "ann"]).status.code(), Some(2));
}
