//! The policy: its files are read with the configuration, so that one cannot be used without the other.

use std::path::PathBuf;
use std::sync::Arc;

use tsugi_policy::problem::PolicyProblem;
use tsugi_policy::set::{PolicySet, PolicySource};

use super::reader::{SettingsReader, SettingsSection};
use crate::config::document::ConfigNode;
use crate::config::problem::{ConfigProblem, SourcePosition};
use crate::config::settings::{PolicySettings, policy_rules};

/// Reads `policy`; `None` when there is none.
pub(super) fn read(reader: &mut SettingsReader<'_>, node: Option<&ConfigNode>) -> Option<PolicySettings> {
    let node = node?;
    let section = SettingsSection::open(reader, Some(node), &policy_rules::TABLE);
    let mode = reader.or_default(&section, &policy_rules::MODE);
    let Some(files) = section.get(&policy_rules::FILES) else {
        reader.problem(node, "`files` is missing here: it names the files with the rules");
        return None;
    };
    let items = files.items().unwrap_or(std::slice::from_ref(files));
    if items.is_empty() {
        reader.problem(files, "`files` is empty: without a file there are no rules, and nothing would be permitted");
        return None;
    }
    let mut sources = Vec::new();
    for item in items {
        let path = reader.path(item)?;
        let text = reader.file(item, &path)?;
        sources.push(PolicySource { file: path, text });
    }
    let files: Vec<PathBuf> = sources.iter().map(|source| source.file.clone()).collect();
    match load(sources) {
        Ok(set) => Some(PolicySettings { files, mode, set: Arc::new(set) }),
        Err(problems) => {
            reader.problems.extend(problems);
            None
        }
    }
}

/// Reads rules, or says what is wrong with them in the form that all problems have.
pub(crate) fn load(sources: Vec<PolicySource>) -> Result<PolicySet, Vec<ConfigProblem>> {
    let texts: Vec<PolicySource> = sources.clone();
    PolicySet::load(sources).map_err(|problems| problems.into_iter().map(|problem| explain(problem, &texts)).collect())
}

fn explain(problem: PolicyProblem, sources: &[PolicySource]) -> ConfigProblem {
    let text = sources.iter().find(|source| source.file == problem.file).map_or("", |source| &source.text);
    let place = SourcePosition::find(&problem.file, text, problem.start, problem.end);
    let told = ConfigProblem::new(problem.message).at(place);
    problem.hint.into_iter().fold(told, ConfigProblem::with_hint)
}
