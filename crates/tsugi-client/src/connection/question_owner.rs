//! Decides which call a legacy server's question belongs to, without any state of its own.
//!
//! On a shared stream a question (elicitation, sampling, roots) does not name the call that made the server ask.
//! The rules, in this order:
//!
//! 1. The question names one of our progress tokens: it belongs to that call.
//! 2. A call whose client did not declare the asked capability is not a candidate. It still casts doubt when its tool
//!    is known to ask, or when the only candidate's tool is known not to.
//! 3. All candidates belong to one client: the question goes to its oldest call without an open question, or to the
//!    newest when all have one. Only a legacy session is a client with several calls; every modern request is a
//!    client of its own, whatever its key.
//! 4. Otherwise the question goes to no call: showing one person's question to another is worse than failing.
//!
//! A call that was cancelled stays a candidate until its server must have read the cancellation. After that it casts
//! doubt for a while when its tool asks and the candidate's is not known to, since a server may ignore cancellations.

use tsugi_protocol::answer::{Call, Caller};
use tsugi_protocol::mcp::Era;

/// The client that would see a question of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum QuestionClient {
    /// A legacy session: one client for all of its calls.
    Session(Caller),
    /// One modern request, by the key of its call.
    Request(u64),
}

impl QuestionClient {
    pub(crate) fn of(key: u64, call: &Call) -> Self {
        let is_session = call.caller.session().is_some() && call.meta.client.version.era() == Era::Legacy;
        if is_session { Self::Session(call.caller.clone()) } else { Self::Request(key) }
    }
}

/// Whether a tool makes its server ask, as far as was seen on this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum AskingHabit {
    #[default]
    Unknown,
    /// It has asked.
    Asks,
    /// It has ended without a question while no other call could be asked.
    Quiet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallStanding {
    InFlight,
    /// It was cancelled, and the server may not have read that yet.
    Suspect,
    /// It was cancelled, and the server should have given it up.
    Doubted,
}

/// A call that may be the reason for a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuestionCandidate {
    /// The key of the call; smaller is older.
    pub(crate) key: u64,
    pub(crate) client: QuestionClient,
    /// Its client declared the asked capability.
    pub(crate) can_answer: bool,
    /// It has an open question already.
    pub(crate) is_asking: bool,
    pub(crate) standing: CallStanding,
    pub(crate) habit: AskingHabit,
}

/// Where a question goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum QuestionOwner {
    Call(u64),
    /// No call in flight can have caused it.
    NoCall,
    /// Only calls whose clients did not declare the capability can have caused it; with the key when it is one.
    Incapable(Option<u64>),
    /// Calls of several clients can have caused it.
    Unclear,
}

/// Applies the rules. `token` is the progress token that the question names.
pub(crate) fn owner(token: Option<u64>, calls: &[QuestionCandidate]) -> QuestionOwner {
    if let Some(named) = calls.iter().find(|call| Some(call.key) == token) {
        return match named {
            QuestionCandidate { standing: CallStanding::Suspect | CallStanding::Doubted, .. } => QuestionOwner::NoCall,
            QuestionCandidate { can_answer: false, key, .. } => QuestionOwner::Incapable(Some(*key)),
            QuestionCandidate { key, .. } => QuestionOwner::Call(*key),
        };
    }
    // Clients that did not declare the capability cannot be asked, whatever call caused the question.
    let (able, unable): (Vec<_>, Vec<_>) =
        calls.iter().partition(|call| call.can_answer && call.standing != CallStanding::Doubted);
    let Some(first) = able.first() else { return incapable(&unable) };
    // Cancelled calls count here too: their server may not know yet that they are over.
    let is_one_client = able.iter().all(|call| call.client == first.client);
    if !is_one_client || unable.iter().any(|call| casts_doubt(call, &able)) {
        return QuestionOwner::Unclear;
    }
    let in_flight = || able.iter().filter(|call| call.standing == CallStanding::InFlight);
    let free = in_flight().filter(|call| !call.is_asking).map(|call| call.key).min();
    // A server that asks several things at once has begun with its newest call.
    match free.or_else(|| in_flight().map(|call| call.key).max()) {
        Some(key) => QuestionOwner::Call(key),
        None => QuestionOwner::NoCall,
    }
}

fn incapable(unable: &[&QuestionCandidate]) -> QuestionOwner {
    let mut in_flight = unable.iter().filter(|call| call.standing == CallStanding::InFlight);
    match (in_flight.next(), in_flight.next()) {
        (None, _) => QuestionOwner::NoCall,
        (Some(only), None) => QuestionOwner::Incapable(Some(only.key)),
        _ => QuestionOwner::Incapable(None),
    }
}

/// Whether this call, whose client cannot be asked or has cancelled it, is a likelier reason for the question than the
/// candidates.
fn casts_doubt(call: &QuestionCandidate, able: &[&QuestionCandidate]) -> bool {
    match call.habit {
        AskingHabit::Asks if call.standing == CallStanding::Doubted => {
            able.iter().all(|other| other.habit != AskingHabit::Asks)
        }
        AskingHabit::Asks => true,
        AskingHabit::Unknown => able.iter().all(|other| other.habit == AskingHabit::Quiet),
        AskingHabit::Quiet => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A capable modern request, changed as the case wants.
    fn call(key: u64, change: impl FnOnce(&mut QuestionCandidate)) -> QuestionCandidate {
        let mut call = QuestionCandidate {
            key,
            client: QuestionClient::Request(key),
            can_answer: true,
            is_asking: false,
            standing: CallStanding::InFlight,
            habit: AskingHabit::Unknown,
        };
        change(&mut call);
        call
    }

    fn plain(key: u64) -> QuestionCandidate {
        call(key, |_| {})
    }

    fn in_session(key: u64, is_asking: bool) -> QuestionCandidate {
        let client = QuestionClient::Session(Caller::of_key("ann").in_session("1"));
        call(key, |call| (call.client, call.is_asking) = (client, is_asking))
    }

    fn unable(key: u64, habit: AskingHabit) -> QuestionCandidate {
        call(key, |call| (call.can_answer, call.habit) = (false, habit))
    }

    fn cancelled(key: u64) -> QuestionCandidate {
        call(key, |call| call.standing = CallStanding::Suspect)
    }

    fn doubted(key: u64, habit: AskingHabit) -> QuestionCandidate {
        call(key, |call| (call.standing, call.habit) = (CallStanding::Doubted, habit))
    }

    #[test]
    fn a_question_goes_to_one_client_or_to_no_call() {
        use AskingHabit::*;
        use QuestionOwner::*;
        let quiet = call(1, |call| call.habit = Quiet);
        let asking = call(2, |call| call.habit = Asks);
        let cases: Vec<(&str, Option<u64>, Vec<QuestionCandidate>, QuestionOwner)> = vec![
            ("no call is in flight", None, vec![], NoCall),
            ("one call is in flight", None, vec![plain(5)], Call(5)),
            ("the token decides between two", Some(2), vec![plain(1), plain(2)], Call(2)),
            ("a token that is not ours decides nothing", Some(9), vec![plain(1), plain(2)], Unclear),
            ("the token of a cancelled call", Some(1), vec![cancelled(1), plain(2)], NoCall),
            (
                "the token of a call that cannot be asked",
                Some(1),
                vec![unable(1, Unknown), plain(2)],
                Incapable(Some(1)),
            ),
            ("two modern requests", None, vec![plain(1), plain(2)], Unclear),
            ("a modern request and a session", None, vec![plain(1), in_session(2, false)], Unclear),
            ("the oldest call of a session", None, vec![in_session(7, false), in_session(3, false)], Call(3)),
            ("the one without a question", None, vec![in_session(7, false), in_session(3, true)], Call(7)),
            ("the newest when all have one", None, vec![in_session(7, true), in_session(3, true)], Call(7)),
            ("a call without the capability is not a candidate", None, vec![unable(1, Unknown), plain(2)], Call(2)),
            ("unless its tool is known to ask", None, vec![unable(1, Asks), plain(2)], Unclear),
            ("or the candidate's tool is known not to", None, vec![quiet.clone(), unable(2, Unknown)], Unclear),
            ("two quiet tools cast no doubt", None, vec![quiet, unable(2, Quiet)], Call(1)),
            ("one call without the capability", None, vec![unable(4, Unknown)], Incapable(Some(4))),
            ("two of them", None, vec![unable(4, Unknown), unable(5, Unknown)], Incapable(None)),
            ("a cancelled call alone", None, vec![cancelled(1)], NoCall),
            ("a cancelled call beside another", None, vec![cancelled(1), plain(2)], Unclear),
            ("long after the cancellation", None, vec![doubted(1, Unknown), plain(2)], Call(2)),
            ("of a tool that asks", None, vec![doubted(1, Asks), plain(2)], Unclear),
            ("beside one that asks too", None, vec![doubted(1, Asks), asking], Call(2)),
        ];
        for (name, token, calls, expected) in cases {
            assert_eq!(owner(token, &calls), expected, "{name}");
        }
    }

    #[test]
    fn only_a_legacy_session_is_a_client_with_several_calls() {
        use std::sync::Arc;
        use tsugi_protocol::mcp::meta::RequestMeta;
        use tsugi_protocol::mcp::{ClientProfile, ProtocolVersion};
        let of = |key: u64, version: ProtocolVersion, caller: Caller| {
            let mut call = Call::tool("t", None).from_caller(caller);
            call.meta = RequestMeta::of_client(Arc::new(ClientProfile { version, ..ClientProfile::default() }));
            QuestionClient::of(key, &call)
        };
        let session = || Caller::of_key("ann").in_session("1");
        let (modern, legacy) = (ProtocolVersion::LATEST, ProtocolVersion::LATEST_LEGACY);
        assert_eq!(of(1, legacy, session()), of(2, legacy, session()));
        assert_ne!(of(1, legacy, session()), of(2, legacy, Caller::of_key("ann").in_session("2")));
        assert_ne!(of(1, modern, session()), of(2, modern, session()), "a modern request stands alone");
        assert_ne!(of(1, legacy, Caller::of_key("ann")), of(2, legacy, Caller::of_key("ann")), "a key is not a client");
    }
}
