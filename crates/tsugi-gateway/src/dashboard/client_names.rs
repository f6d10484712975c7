//! Names and versions of the programs that call, each kept once, so that a record of a call holds no part of a request.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;
use tsugi_protocol::json::RawJson;

/// How many programs are known by name. Callers choose the names.
const MOST: usize = 256;
/// A longer description is not looked at.
const LONGEST: usize = 1024;
/// The longest name that is shown.
const LONGEST_NAME: usize = 80;

/// A `clientInfo` as it was written, with the name to show; nothing for one without a name.
type NamesByInfo = HashMap<Box<[u8]>, Option<Arc<str>>>;

/// What programs called themselves.
#[derive(Default)]
pub(super) struct ClientNames(RwLock<NamesByInfo>);

impl ClientNames {
    /// `name version` of a program, if it said so.
    pub(super) fn label(&self, info: Option<&RawJson>) -> Option<Arc<str>> {
        let info = info.filter(|info| info.bytes().len() <= LONGEST)?;
        if let Some(known) = self.0.read().get(info.bytes().as_ref() as &[u8]) {
            return known.clone();
        }
        let label = read(info);
        let mut names = self.0.write();
        if names.len() < MOST {
            names.insert(info.bytes().to_vec().into(), label.clone());
        }
        label
    }
}

fn read(info: &RawJson) -> Option<Arc<str>> {
    let info: Value = info.to_lossy().ok()?;
    let name = info["name"].as_str().filter(|name| !name.is_empty())?;
    let label = match info["version"].as_str().filter(|version| !version.is_empty()) {
        Some(version) => format!("{name} {version}"),
        None => name.to_owned(),
    };
    let label: String = label.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect();
    Some(label.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_program_is_named_with_its_version_and_the_table_is_bounded() {
        let names = ClientNames::default();
        let label = |info: Value| names.label(Some(&RawJson::from(info)));
        assert_eq!(label(json!({"name": "claude-code", "version": "2.1"})).as_deref(), Some("claude-code 2.1"));
        assert_eq!(label(json!({"name": "x"})).as_deref(), Some("x"));
        assert_eq!(label(json!({"version": "1"})), None);
        assert_eq!(names.label(None), None);
        for number in 0..2 * MOST {
            assert!(label(json!({"name": format!("n{number}")})).is_some());
        }
        assert_eq!(names.0.read().len(), MOST);
    }
}
