//! Hints for a person: the verbs of the command instead of the tools of an agent.

use serde_json::Value;
use tsugi_pm::domain::advice::FaultAdvice;
use tsugi_pm::domain::fault::{Code, PmFault};

/// The hint of a refusal, in the words of the command.
pub(super) fn hint(fault: &PmFault) -> String {
    if fault.code == Code::AlreadyClaimed {
        return instead(fault);
    }
    if let Some(key) = fault.details.get("key").and_then(Value::as_str) {
        return format!(
            "add agents to it: `tsugi pm agent add agt_x --project {key} --role worker`; or choose another key"
        );
    }
    fault.advice.as_ref().map_or_else(|| fault.hint.clone(), typed)
}

/// What a person types.
fn typed(advice: &FaultAdvice) -> String {
    let words = match advice {
        FaultAdvice::WorkOnTheOther => "work on that one, or say --similar-ok",
        FaultAdvice::AskManager => "ask a manager",
        FaultAdvice::NameSession => {
            "name one with --session, or end the others with `tsugi pm end`; `tsugi pm who` shows them"
        }
        FaultAdvice::NameHolder(session) => {
            return format!("another session of yours holds it: name it with --session {session}");
        }
        FaultAdvice::LeaveTargetOut => "leave --to out, and any agent may take it",
        FaultAdvice::BeginSession => "begin one",
        FaultAdvice::BeginAnotherSession => "begin a new one",
        FaultAdvice::WaitUntilOver(reason) => {
            return format!("{reason}; when that is over, take it up again with `tsugi pm move KEY todo`");
        }
        FaultAdvice::TakePrerequisites => "take one of these first, or other work from `tsugi pm ready`",
        FaultAdvice::LookForOtherWork => "look for other work with `tsugi pm ready`",
        FaultAdvice::GiveReason => "add --reason \"…\"",
        FaultAdvice::SendToReview => "send it to review: `tsugi pm review`",
    };
    words.to_owned()
}

/// The tasks that are free instead of one that is held.
fn instead(fault: &PmFault) -> String {
    let others = fault.details.get("alternatives").and_then(Value::as_array);
    let names: Vec<&str> = others.into_iter().flatten().filter_map(|task| task["ref"].as_str()).collect();
    if names.is_empty() {
        "nothing else is ready now".to_owned()
    } else {
        format!("free instead: {}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_person_hears_of_verbs_and_of_what_is_free() {
        let refused = |advice| hint(&PmFault::new(Code::NotReady, "no").advise(advice));
        assert_eq!(refused(FaultAdvice::WorkOnTheOther), "work on that one, or say --similar-ok");
        assert_eq!(refused(FaultAdvice::LookForOtherWork), "look for other work with `tsugi pm ready`");
        assert_eq!(hint(&PmFault::new(Code::Busy, "no").hint("try again")), "try again");
        let held = PmFault::new(Code::AlreadyClaimed, "held").hint("claim one of these instead: WEB-2");
        assert_eq!(hint(&held), "nothing else is ready now");
        let others = json!([{"ref": "WEB-1"}, {"ref": "WEB-4"}]);
        assert_eq!(hint(&held.with("alternatives", others)), "free instead: WEB-1, WEB-4");
    }
}
