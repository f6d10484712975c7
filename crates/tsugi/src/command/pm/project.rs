//! `tsugi pm project`: the projects, their rules, and putting them away and back.

use clap::Subcommand;
use serde_json::{Map, Value, json};
use tsugi_pm::action::project::{CreateProject, GetProject, UpdateProject};
use tsugi_pm::domain::policy::ProjectPolicy;
use tsugi_pm::domain::project::ProjectStatus;

use super::{PmConsole, PmTarget, layout};
use crate::app::App;
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::output::table::TextTable;

#[derive(Debug, clap::Args)]
pub(super) struct ProjectArgs {
    #[command(subcommand)]
    order: ProjectCommand,
}

#[derive(Debug, Subcommand)]
enum ProjectCommand {
    /// List the projects
    List {
        #[command(flatten)]
        place: PmTarget,
    },
    /// Make a project
    New {
        #[command(flatten)]
        place: PmTarget,
        /// Its key: what stands before its task numbers
        key: String,
        /// Its name
        name: String,
    },
    /// Show a project, its rules and its people
    Show {
        #[command(flatten)]
        place: PmTarget,
        /// Its key or id
        key: String,
    },
    /// Change a project's name, state or rules
    Set(SetProjectArgs),
}

#[derive(Debug, clap::Args)]
struct SetProjectArgs {
    #[command(flatten)]
    place: PmTarget,
    /// Its key or id
    key: String,
    /// A new name
    #[arg(long)]
    name: Option<String>,
    /// active, paused or archived
    #[arg(long)]
    status: Option<ProjectStatus>,
    /// A rule, such as resume_grace_s=0 or review_required=true; may be repeated
    #[arg(long = "rule", value_name = "RULE=VALUE")]
    rules: Vec<String>,
    /// Why
    #[arg(long)]
    reason: Option<String>,
}

pub(super) async fn project(app: &App, order: ProjectArgs) -> Result<(), CommandFailure> {
    match order.order {
        ProjectCommand::List { place } => list(app, &place).await,
        ProjectCommand::New { place, key, name } => {
            let (description, policy, idempotency_key) = (String::new(), ProjectPolicy::default(), None);
            let wish = CreateProject { key, name, description, policy, idempotency_key };
            PmConsole::make(app, &place).await?.show(wish).await
        }
        ProjectCommand::Show { place, key } => {
            let console = PmConsole::open(app, &place).await?;
            let project_id = console.project(Some(&key)).await?;
            let detail = console.perform(GetProject { project_id }).await?;
            if app.output.is_data_watched() && app.output.form() == OutputFormat::Text {
                return Ok(app.output.page(|paint| layout::project(&detail, layout::now(), paint))?);
            }
            console.print(&detail)
        }
        ProjectCommand::Set(order) => set(app, order).await,
    }
}

async fn list(app: &App, place: &PmTarget) -> Result<(), CommandFailure> {
    let console = PmConsole::open(app, place).await?;
    let projects = console.projects().await?;
    if app.output.form() == OutputFormat::Json {
        return Ok(app.output.json(&json!({"projects": projects}))?);
    }
    let mut table = TextTable::new(["key", "status", "id", "name"]);
    for project in projects {
        table.row([project.key, project.status.to_string(), project.id.to_string(), project.name]);
    }
    Ok(app.output.table(&table)?)
}

async fn set(app: &App, order: SetProjectArgs) -> Result<(), CommandFailure> {
    let console = PmConsole::open(app, &order.place).await?;
    let project_id = console.project(Some(&order.key)).await?;
    let policy = match order.rules.as_slice() {
        [] => None,
        rules => {
            let now = console.perform(GetProject { project_id: project_id.clone() }).await?.project.policy;
            Some(changed(&now, rules).map_err(CommandFailure::usage)?)
        }
    };
    let SetProjectArgs { name, status, reason, .. } = order;
    console.show(UpdateProject { name, status, policy, reason, ..UpdateProject::of(project_id) }).await
}

/// The rules with some of them changed.
fn changed(policy: &ProjectPolicy, rules: &[String]) -> Result<ProjectPolicy, String> {
    let mut fields: Map<String, Value> = json!(policy).as_object().cloned().unwrap_or_default();
    for rule in rules {
        let (name, value) = rule.split_once('=').ok_or_else(|| format!("`{rule}` is not RULE=VALUE"))?;
        let known: Vec<&String> = fields.keys().collect();
        if !fields.contains_key(name) {
            return Err(format!("there is no rule `{name}`; there are {}", join(&known)));
        }
        let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        let old = fields.insert(name.to_owned(), value.clone());
        if let Err(error) = serde_json::from_value::<ProjectPolicy>(Value::Object(fields.clone())) {
            return Err(match old {
                Some(Value::Bool(_) | Value::Null) => format!("{name} is true or false, not {value}"),
                Some(Value::Number(_)) => format!("{name} is a whole number, not {value}"),
                _ => format!("{name} cannot be {value}: {error}"),
            });
        }
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())
}

fn join(names: &[&String]) -> String {
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_changed_by_name_and_what_does_not_fit_is_refused() {
        let rules = |texts: &[&str]| -> Vec<String> { texts.iter().map(|text| (*text).to_owned()).collect() };
        let now = ProjectPolicy::default();
        let new = changed(&now, &rules(&["resume_grace_s=0", "review_required=true", "worker_create=allow"])).unwrap();
        assert_eq!((new.resume_grace_s, new.review_required, new.worker_create.as_str()), (0, Some(true), "allow"));
        assert_eq!(changed(&new, &rules(&["review_required=null"])).unwrap().review_required, None);
        for bad in ["resume_grace_s", "no_such=1", "worker_create=maybe", "resume_grace_s=soon"] {
            assert!(changed(&now, &rules(&[bad])).is_err(), "{bad}");
        }
        let said = |rule: &str| changed(&now, &rules(&[rule])).unwrap_err();
        assert_eq!(said("review_required=maybe"), "review_required is true or false, not \"maybe\"");
        assert_eq!(said("resume_grace_s=soon"), "resume_grace_s is a whole number, not \"soon\"");
    }
}
