//! Links between documents, down to the heading they name.

use super::page::{Page, root};

/// Where the links and pictures of a text lead.
pub(crate) fn targets(text: &str) -> Vec<String> {
    let rests = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    rests.filter(|target| !target.contains(' ')).map(str::to_owned).collect()
}

/// The headings of a text, as they are written.
pub(crate) fn headings(text: &str) -> Vec<String> {
    let mut is_block = false;
    let outside = text.lines().filter(|line| {
        is_block ^= line.starts_with("```");
        !is_block && line.starts_with('#')
    });
    outside.map(|line| line.trim_start_matches('#').trim().to_owned()).collect()
}

/// The anchor of a heading, as forges make it.
fn anchor(heading: &str) -> String {
    let kept =
        heading.to_lowercase().chars().filter(|one| one.is_alphanumeric() || "-_ ".contains(*one)).collect::<String>();
    kept.replace(' ', "-")
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_are_there() {
    let mut broken = Vec::new();
    for page in Page::all() {
        for target in targets(&page.prose()).into_iter().filter(|target| !target.contains("://")) {
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            let own = root().join(&page.name);
            let path = if file.is_empty() { own.clone() } else { own.parent().unwrap().join(file) };
            let has_heading = || {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                heading.is_empty() || headings(&text).iter().any(|one| anchor(one) == heading)
            };
            if !path.exists() || !has_heading() {
                broken.push(format!("{} → {target}", page.name));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The index is `docs/README.md` together with the `README.md` of each folder that it links to.
#[test]
fn every_document_is_on_the_index() {
    let linked_from = |name: &str| {
        let folder = name.trim_start_matches("docs/").trim_end_matches("README.md").to_owned();
        targets(&Page::read(name).text).into_iter().map(move |target| format!("{folder}{target}"))
    };
    let mut linked: Vec<String> = linked_from("docs/README.md").collect();
    let folders: Vec<String> = linked.iter().filter(|target| target.ends_with("/README.md")).cloned().collect();
    linked.extend(
        folders.iter().filter(|name| !name.starts_with("..")).flat_map(|name| linked_from(&format!("docs/{name}"))),
    );
    let missing: Vec<String> = Page::below("docs")
        .into_iter()
        .map(|page| page.name.trim_start_matches("docs/").to_owned())
        .filter(|name| name != "README.md" && !linked.contains(name))
        .collect();
    assert!(missing.is_empty(), "not on docs/README.md: {missing:?}");
}

#[test]
fn anchors_are_made_as_forges_make_them() {
    assert_eq!(anchor("`servers[].sandbox`"), "serverssandbox");
    assert_eq!(anchor("Use it as a library"), "use-it-as-a-library");
}
