//! The documents, tried: commands run, settings are accepted, links lead somewhere, generated pages are fresh.
#![allow(clippy::print_stdout, reason = "what is not run is said, with its reason")]

mod generated;
mod link;
mod page;
mod shell;
mod word;

use page::{Kind, Page};
use shell::Shell;

/// Runs every block of a page in one directory, in their order.
fn try_out(page: &Page) {
    let mut shell = Shell::new();
    for block in page.blocks() {
        let place = format!("{}:{}", page.name, block.line);
        match block.kind(&place) {
            Kind::Run if block.text.contains("curl ") && !shell::has_curl() => {
                println!("not run: {place}: curl is not installed");
            }
            Kind::Run => shell.run(&place, &block.text),
            Kind::Serve => shell.serve(&place, &block.text),
            Kind::NotRun(reason) => println!("not run: {place}: {reason}"),
            Kind::Output => shell.assert_said(&place, &block.text),
            Kind::Settings(file) => shell.settings(&place, file, &block.text),
            Kind::Json(file) => shell.json(&place, file, &block.text),
            Kind::Other => {}
        }
    }
}

#[test]
fn every_command_of_the_readme_works() {
    try_out(&Page::read("README.md"));
}

#[test]
fn every_command_of_the_guides_works() {
    Page::below("docs/guide").iter().for_each(try_out);
}

#[test]
fn every_command_of_the_other_documents_works() {
    let pages = Page::below("docs").into_iter().filter(|page| !page.name.starts_with("docs/guide"));
    pages.chain([Page::read("CONTRIBUTING.md")]).for_each(|page| try_out(&page));
}

#[test]
fn both_readmes_show_the_same_commands_and_lead_to_the_same_places() {
    let (english, japanese) = (Page::read("README.md"), Page::read("README.ja.md"));
    let texts = |page: &Page| page.blocks().into_iter().map(|block| (block.info, block.text)).collect::<Vec<_>>();
    assert_eq!(texts(&english), texts(&japanese));
    let without_the_other = |page: &Page| {
        let links = link::targets(&page.text).into_iter().filter(|target| !target.starts_with("README"));
        links.collect::<Vec<_>>()
    };
    assert_eq!(without_the_other(&english), without_the_other(&japanese));
    assert_eq!(link::headings(&english.text).len(), link::headings(&japanese.text).len());
}

/// The pages are tried with a stand-in for cargo, which knows the program already. Cargo itself must know it too.
#[test]
#[allow(clippy::disallowed_methods, reason = "cargo ends by itself")]
fn cargo_run_without_a_name_means_tsugi() {
    let asked = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let told: serde_json::Value = serde_json::from_slice(&asked.stdout).unwrap();
    let packages = told["packages"].as_array().unwrap();
    let meant: Vec<_> = packages.iter().filter_map(|package| package["default_run"].as_str()).collect();
    assert_eq!(meant, ["tsugi"]);
}
