//! Who may do what: one table, so that a reader can check it at a glance.

use serde::Serialize;

use super::fault::{Code, PmFault};
use super::member::Role;
use super::word::words;

words! {
    /// Something a role may or may not do.
    Power {
        /// See everything in the project.
        Read = "read",
        /// Claim, release and move the tasks one holds.
        Work = "work",
        AddContext = "add_context",
        /// Create, accept and reject handoffs.
        HandOff = "hand_off",
        /// Create tasks (a worker's further limits are in the project's policy).
        CreateTask = "create_task",
        /// Change a task's fields and dependencies.
        EditTask = "edit_task",
        /// Give a verdict on work.
        Review = "review",
        /// Move any task, assign, cancel, reopen, take a claim away.
        Manage = "manage",
        /// Change the project's rules, its people, archive and restore it.
        Own = "own",
    }
}

/// The table: power, then owner, manager, worker, viewer.
const TABLE: &[(Power, [bool; 4])] = &[
    (Power::Read, [true, true, true, true]),
    (Power::Work, [true, true, true, false]),
    (Power::AddContext, [true, true, true, false]),
    (Power::HandOff, [true, true, true, false]),
    (Power::CreateTask, [true, true, true, false]),
    (Power::EditTask, [true, true, true, false]),
    (Power::Review, [true, true, true, false]),
    (Power::Manage, [true, true, false, false]),
    (Power::Own, [true, false, false, false]),
];

impl Role {
    /// Whether this role has this power.
    pub fn may(self, power: Power) -> bool {
        TABLE.iter().any(|(row, roles)| *row == power && roles[self as usize])
    }

    /// Refuses a role that lacks the power, saying which roles have it.
    pub fn check(self, power: Power) -> Result<(), PmFault> {
        if self.may(power) {
            return Ok(());
        }
        let required: Vec<&str> = Role::ALL.iter().filter(|role| role.may(power)).map(|role| role.as_str()).collect();
        let hint = format!("ask {}", with_article(required.last().copied().unwrap_or("owner")));
        Err(denied(format!("a {self} may not {power}"), &required, Some(self)).hint(hint))
    }
}

/// A refusal that says what it would take, and as what the caller came: `null` where that does not matter.
pub fn denied<T: Serialize>(message: impl Into<String>, required: &[T], role: Option<Role>) -> PmFault {
    PmFault::new(Code::PermissionDenied, message).with("required", required).with("role", role)
}

fn with_article(role: &str) -> String {
    if role.starts_with('o') { format!("an {role}") } else { format!("a {role}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_power_is_in_the_table_once() {
        for power in Power::ALL {
            assert_eq!(TABLE.iter().filter(|(row, _)| row == power).count(), 1, "{power}");
        }
    }

    #[test]
    fn each_role_has_all_powers_of_the_next_lower_one() {
        for power in Power::ALL {
            for pair in Role::ALL.windows(2) {
                assert!(pair[0].may(*power) || !pair[1].may(*power), "{power}: {} < {}", pair[0], pair[1]);
            }
        }
    }

    #[test]
    fn a_viewer_reads_only_a_worker_does_not_manage_and_a_manager_does_not_own() {
        assert!(Power::ALL.iter().all(|power| Role::Viewer.may(*power) == (*power == Power::Read)));
        assert!(!Role::Worker.may(Power::Manage) && !Role::Manager.may(Power::Own) && Role::Owner.may(Power::Own));
    }

    #[test]
    fn a_refusal_names_the_roles_that_may() {
        let fault = Role::Worker.check(Power::Manage).unwrap_err();
        assert_eq!(fault.code, Code::PermissionDenied);
        assert_eq!(fault.details["required"], serde_json::json!(["owner", "manager"]));
        assert_eq!(fault.hint, "ask a manager");
    }
}
