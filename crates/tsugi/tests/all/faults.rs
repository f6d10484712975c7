//! The rows of the fault matrix that need a real process: signals, reloads, full pipes, parents that die.

mod drain;
mod handover;
mod log;
mod own;
mod reload;
mod scarce;
mod soak;
mod state;
mod stop;

/// How many of something: the small number, or the full one where `TSUGI_TEST_LONG` is set.
fn scaled(small: usize, full: usize) -> usize {
    if std::env::var_os("TSUGI_TEST_LONG").is_some() { full } else { small }
}

/// The code of every test of the workspace.
fn all_tests(folder: &std::path::Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            all_tests(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn the_table_of_faults_names_the_tests_that_there_are() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().parent().unwrap();
    let table = std::fs::read_to_string(root.join("docs/reference/faults-gateway.md")).unwrap();
    let mut code = String::new();
    for crate_name in ["tsugi", "tsugi-gateway"] {
        all_tests(&root.join("crates").join(crate_name).join("tests"), &mut code);
    }
    let is_row = |name: &str| {
        let number = name.strip_prefix(['d', 'w', 't']).and_then(|rest| rest.get(..3)).unwrap_or_default();
        number.ends_with('_') && number[..2].bytes().all(|digit| digit.is_ascii_digit())
    };
    let named: Vec<&str> = table.split('`').filter(|word| is_row(word)).collect();
    assert!(named.len() > 50, "{named:?}");
    for name in &named {
        assert!(code.contains(&format!("fn {name}()")), "there is no test {name}");
    }
    let written = code.split("fn ").filter_map(|rest| rest.split('(').next());
    for name in written.filter(|name| is_row(name)) {
        assert!(named.contains(&name), "{name} is in no row");
    }
}
