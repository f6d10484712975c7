//! The status machine checked against the table as the design prints it, written a second time by hand.

use super::*;

/// One caller for each way of standing to a task.
fn callers() -> [(&'static str, TaskStanding); 7] {
    let worker = TaskStanding {
        role: Role::Worker,
        is_holder: false,
        is_assignee: false,
        is_last_worker: false,
        is_review_required: true,
    };
    [
        ("owner", TaskStanding { role: Role::Owner, ..worker }),
        ("manager", TaskStanding { role: Role::Manager, ..worker }),
        ("holder", TaskStanding { is_holder: true, is_assignee: true, is_last_worker: true, ..worker }),
        (
            "holder without review",
            TaskStanding {
                is_holder: true,
                is_assignee: true,
                is_last_worker: true,
                is_review_required: false,
                ..worker
            },
        ),
        ("assignee", TaskStanding { is_assignee: true, is_last_worker: true, ..worker }),
        ("worker", worker),
        ("viewer", TaskStanding { role: Role::Viewer, ..worker }),
    ]
}

/// From each status, where each of the callers above may go.
fn expected(from: TaskStatus, caller: &str) -> &'static [TaskStatus] {
    match (from, caller) {
        (_, "viewer") => &[],
        (Backlog, "owner" | "manager") => &[Todo, Cancelled],
        (Todo, "owner" | "manager") => &[Backlog, InProgress, Cancelled],
        (Todo, _) => &[InProgress],
        (InProgress, "owner" | "manager") => &[Todo, Blocked, Review, Done, Cancelled],
        (InProgress, "holder") => &[Todo, Blocked, Review],
        (InProgress, "holder without review") => &[Todo, Blocked, Review, Done],
        (Review, "owner" | "manager") => &[Done, Todo, Cancelled],
        (Review, "worker") => &[Done, Todo],
        (Blocked, "owner" | "manager") => &[Todo, Cancelled],
        (Blocked, "worker") => &[Todo],
        (Blocked, _) => &[Todo, InProgress],
        (Done, "owner" | "manager") => &[Todo],
        (Cancelled, "owner" | "manager") => &[Backlog],
        _ => &[],
    }
}

#[test]
fn the_task_machine_is_the_table_of_the_design_for_every_caller() {
    for (caller, standing) in callers() {
        for from in TaskStatus::ALL {
            assert_eq!(allowed(*from, &standing), expected(*from, caller), "{caller} from {from}");
            for to in TaskStatus::ALL {
                let is_expected = expected(*from, caller).contains(to);
                assert_eq!(next(*from, *to, &standing).is_ok(), is_expected, "{caller}: {from} -> {to}");
            }
        }
    }
}

#[test]
fn only_a_move_to_in_progress_claims_and_every_move_out_of_it_ends_the_claim() {
    for one in MOVES {
        assert_eq!(one.effect == MoveEffect::Claim, one.to == InProgress, "{one:?}");
        assert_eq!(matches!(one.effect, MoveEffect::EndClaim(_)), one.from == InProgress, "{one:?}");
    }
}

#[test]
fn a_refusal_says_what_is_allowed() {
    let (_, worker) = callers()[5];
    let fault = next(Todo, Done, &worker).unwrap_err();
    assert_eq!(fault.code, Code::InvalidTransition);
    assert_eq!(fault.details["allowed"], serde_json::json!(["in_progress"]));
}

#[test]
fn a_holder_under_review_policy_is_sent_to_review_and_nobody_judges_their_own_work() {
    let (_, holder) = callers()[2];
    assert_eq!(next(InProgress, Done, &holder).unwrap_err().code, Code::ApprovalRequired);
    assert_eq!(next(Review, Done, &holder).unwrap_err().code, Code::PermissionDenied);
}
