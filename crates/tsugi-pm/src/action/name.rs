//! Completion of ids and keys by their prefix.

use serde::{Deserialize, Serialize};

use super::action_context::ActionContext;
use super::{Action, ActionEffect};
use crate::domain::fault::PmFault;
use crate::domain::word::words;

/// More than a client shows, so that it can say that there are more.
const MOST: i64 = 101;
/// The names of a kind are spread evenly from here on; fewer letters than these would mean reading nearly all of them.
const TELLING: usize = 2;

words! {
    /// What is looked for.
    NameKind {
        /// A person or a program: `agt_…`.
        Agent = "agent",
        /// A project: `prj_…` or its key.
        Project = "project",
        /// A session of the caller's own: `ses_…`.
        Session = "session",
        /// A task: `tsk_…` or `KEY-n`.
        Task = "task",
    }
}

/// The names of one kind that begin with some letters, as far as the caller may know of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindNames {
    pub kind: NameKind,
    /// How they begin; references and keys in letters of either size.
    pub prefix: String,
}

impl Action for FindNames {
    const NAME: &'static str = "find_names";
    const EFFECT: ActionEffect = ActionEffect::Read;
    type Output = Vec<String>;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<Vec<String>, PmFault> {
        match self.kind {
            NameKind::Agent => {
                let found = context.tx.name_list(("agent", "id", "name"), &self.prefix, MOST)?;
                Ok(found.into_iter().map(|(id, _)| id).collect())
            }
            NameKind::Project => self.projects(context),
            NameKind::Session => self.sessions(context),
            NameKind::Task => self.tasks(context),
        }
    }
}

impl FindNames {
    /// Whether what was typed of an id tells some of them from others.
    fn tells(&self, kind: &str) -> bool {
        self.prefix.strip_prefix(kind).is_some_and(|rest| rest.len() >= TELLING)
    }

    fn begins(&self, name: &str) -> bool {
        let typed = self.prefix.as_bytes();
        name.len() >= typed.len() && name.as_bytes()[..typed.len()].eq_ignore_ascii_case(typed)
    }

    fn projects(&self, context: &mut ActionContext<'_, '_>) -> Result<Vec<String>, PmFault> {
        let mut names = Vec::new();
        for id in context.projects(None)? {
            let key = context.tx.project_get(&id)?.key;
            names.extend([key, id.to_string()].into_iter().filter(|name| self.begins(name)));
        }
        Ok(names)
    }

    fn sessions(&self, context: &mut ActionContext<'_, '_>) -> Result<Vec<String>, PmFault> {
        let me = context.agent()?.id;
        if self.tells("ses_") {
            let found = context.tx.name_list(("session", "id", "agent_id"), &self.prefix, MOST * 10)?;
            return Ok(found.into_iter().filter(|(_, whose)| whose == me.as_str()).map(|(id, _)| id).collect());
        }
        let open = context.tx.session_active(&me)?.into_iter().map(|one| one.id.to_string());
        Ok(open.filter(|id| self.begins(id)).collect())
    }

    fn tasks(&self, context: &mut ActionContext<'_, '_>) -> Result<Vec<String>, PmFault> {
        let projects = context.projects(None)?;
        if self.tells("tsk_") {
            let found = context.tx.name_list(("task", "id", "project_id"), &self.prefix, MOST * 10)?;
            let mine = found.into_iter().filter(|(_, whose)| projects.iter().any(|one| one.as_str() == whose));
            return Ok(mine.map(|(id, _)| id).collect());
        }
        let mut names = Vec::new();
        for id in projects {
            let own = format!("{}-", context.tx.project_get(&id)?.key);
            // The longer of the two is the beginning that both ask for.
            let typed = self.prefix.to_ascii_uppercase();
            let prefix = match (own.starts_with(&typed), typed.starts_with(&own)) {
                (true, _) => own,
                (_, true) => typed,
                _ => continue,
            };
            let found = context.tx.name_list(("task", "reference", "id"), &prefix, MOST)?;
            names.extend(found.into_iter().map(|(reference, _)| reference));
        }
        Ok(names)
    }
}
