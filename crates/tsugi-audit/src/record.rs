//! What one line says, and how it is written before its place in the chain is known.

use ring::digest;

use crate::arguments::{ArgumentPolicy, ArgumentRecord};
use crate::canonical::CanonicalObject;
use crate::checkpoint::AuditKey;
use crate::timestamp::AuditTime;

/// Longer text is cut here, and its digest stands beside it.
pub const LONGEST_TEXT: usize = 256;

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuditKind {
    /// A call is about to be sent to its server.
    CallBegun,
    /// A call has its outcome, or its caller has left.
    CallEnded,
    /// A request was refused.
    Denied,
    SignIn,
    /// Failed sign-ins of one address within one minute.
    SignInFailed,
    Token,
    Key,
    Pin,
    Policy,
    Config,
    /// An order to a server, or its addition or removal.
    Server,
    /// A writer took the file.
    Start,
    /// The first line of a file that follows another.
    Rotate,
    /// Something is missing here: a line that was cut short, or lines that could not be written.
    Gap,
    /// The chain so far, signed.
    Checkpoint,
}

impl AuditKind {
    pub const ALL: [AuditKind; 15] = [
        AuditKind::CallBegun,
        AuditKind::CallEnded,
        AuditKind::Denied,
        AuditKind::SignIn,
        AuditKind::SignInFailed,
        AuditKind::Token,
        AuditKind::Key,
        AuditKind::Pin,
        AuditKind::Policy,
        AuditKind::Config,
        AuditKind::Server,
        AuditKind::Start,
        AuditKind::Rotate,
        AuditKind::Gap,
        AuditKind::Checkpoint,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            AuditKind::CallBegun => "call.begun",
            AuditKind::CallEnded => "call.ended",
            AuditKind::Denied => "denied",
            AuditKind::SignIn => "signin",
            AuditKind::SignInFailed => "signin.failed",
            AuditKind::Token => "token",
            AuditKind::Key => "key",
            AuditKind::Pin => "pin",
            AuditKind::Policy => "policy",
            AuditKind::Config => "config",
            AuditKind::Server => "server",
            AuditKind::Start => "audit.start",
            AuditKind::Rotate => "audit.rotate",
            AuditKind::Gap => "audit.gap",
            AuditKind::Checkpoint => "audit.checkpoint",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuditOutcome {
    Ok,
    /// The tool ran and says that it failed.
    ToolError,
    /// The server asks for input; the caller may repeat the call.
    InputRequired,
    Failed,
    /// The caller left or cancelled. Whether the call had an effect is not known.
    Cancelled,
    Refused,
}

impl AuditOutcome {
    pub const fn as_str(self) -> &'static str {
        match self {
            AuditOutcome::Ok => "ok",
            AuditOutcome::ToolError => "tool_error",
            AuditOutcome::InputRequired => "input_required",
            AuditOutcome::Failed => "failed",
            AuditOutcome::Cancelled => "cancelled",
            AuditOutcome::Refused => "refused",
        }
    }
}

/// Which rule decided.
#[derive(Debug, Clone, Copy, Default)]
pub struct DecisionRecord<'a> {
    /// The kind of rule: `permit`, `scope`, `policy`, `quota`, `credential`.
    pub by: &'a str,
    /// The policies that decided, by name.
    pub policies: &'a [String],
}

/// A line before it has a place in the chain. What is absent is left out of the line.
#[derive(Debug, Clone, Copy)]
pub struct AuditRecord<'a> {
    pub kind: AuditKind,
    pub identity: Option<&'a str>,
    pub client: Option<&'a str>,
    pub tenant: Option<&'a str>,
    /// What was asked: a method, or an order such as `restart`.
    pub action: Option<&'a str>,
    pub server: Option<&'a str>,
    /// The server's own name of the tool, prompt or resource.
    pub name: Option<&'a str>,
    pub face: Option<&'a str>,
    pub era: Option<&'a str>,
    pub address: Option<&'a str>,
    pub request_id: Option<&'a str>,
    pub trace_id: Option<&'a str>,
    pub decision: Option<DecisionRecord<'a>>,
    pub outcome: Option<AuditOutcome>,
    pub code: Option<&'a str>,
    /// How long it took, in microseconds; written in milliseconds.
    pub micros: Option<u64>,
    /// The size of the result.
    pub bytes: Option<u64>,
    /// The `seq` of the line that says the call began.
    pub begun: Option<u64>,
    /// How many events one line stands for.
    pub count: Option<u64>,
    /// The arguments as JSON. What is kept of them is the writer's [`ArgumentPolicy`].
    pub arguments: Option<&'a str>,
}

impl<'a> AuditRecord<'a> {
    pub const fn new(kind: AuditKind) -> Self {
        Self {
            kind,
            identity: None,
            client: None,
            tenant: None,
            action: None,
            server: None,
            name: None,
            face: None,
            era: None,
            address: None,
            request_id: None,
            trace_id: None,
            decision: None,
            outcome: None,
            code: None,
            micros: None,
            bytes: None,
            begun: None,
            count: None,
            arguments: None,
        }
    }
}

/// Members that only lines about the log itself have, as canonical JSON.
#[derive(Default)]
pub(crate) struct LogMembers<'a> {
    pub(crate) checkpoint: Option<&'a [u8]>,
    pub(crate) cut: Option<&'a [u8]>,
}

/// A formatted line that lacks `prev` and `seq`. They are spliced in when the line gets its place, so that formatting
/// takes no lock.
#[derive(Debug, Clone)]
pub(crate) struct PreparedLine {
    text: Vec<u8>,
    prev_at: usize,
    seq_at: usize,
}

impl PreparedLine {
    pub(crate) fn new(record: &AuditRecord<'_>, time: AuditTime, policy: &ArgumentPolicy, key: &AuditKey) -> Self {
        // Parsed only where the policy keeps something of them.
        let arguments = record.arguments.and_then(|arguments| policy.record(record, arguments, key));
        Self::format(record, time, arguments.as_ref(), &LogMembers::default())
    }

    pub(crate) fn of_log(record: &AuditRecord<'_>, time: AuditTime, members: &LogMembers<'_>) -> Self {
        Self::format(record, time, None, members)
    }

    /// Writes the members in the order of their names, as RFC 8785 wants them.
    fn format(
        record: &AuditRecord<'_>,
        time: AuditTime,
        arguments: Option<&ArgumentRecord>,
        members: &LogMembers<'_>,
    ) -> Self {
        // Most lines fit, so that one allocation is enough.
        let mut line = CanonicalObject::with_capacity(512);
        text(&mut line, "action", "actionDigest", record.action);
        text(&mut line, "address", "addressDigest", record.address);
        if let Some(arguments) = arguments {
            line.raw("args", &arguments.to_canonical());
        }
        integer(&mut line, "begun", record.begun);
        integer(&mut line, "bytes", record.bytes);
        if let Some(checkpoint) = members.checkpoint {
            line.raw("checkpoint", checkpoint);
        }
        text(&mut line, "client", "clientDigest", record.client);
        text(&mut line, "code", "codeDigest", record.code);
        integer(&mut line, "count", record.count);
        if let Some(cut) = members.cut {
            line.raw("cut", cut);
        }
        if let Some(decision) = &record.decision {
            line.raw("decision", &decision_text(decision));
        }
        text(&mut line, "era", "eraDigest", record.era);
        text(&mut line, "face", "faceDigest", record.face);
        text(&mut line, "identity", "identityDigest", record.identity);
        line.string("kind", record.kind.as_str());
        if let Some(micros) = record.micros {
            line.millis("ms", micros);
        }
        text(&mut line, "name", "nameDigest", record.name);
        if let Some(outcome) = record.outcome {
            line.string("outcome", outcome.as_str());
        }
        // The two places that are filled in under the lock.
        let prev_at = line.position();
        text(&mut line, "requestId", "requestIdDigest", record.request_id);
        let seq_at = line.position();
        text(&mut line, "server", "serverDigest", record.server);
        text(&mut line, "tenant", "tenantDigest", record.tenant);
        let time = time.to_bytes();
        line.string("time", std::str::from_utf8(&time).unwrap_or_default());
        text(&mut line, "traceId", "traceIdDigest", record.trace_id);
        Self { text: line.finish(), prev_at, seq_at }
    }

    /// Appends the line with its place in the chain, without a newline. `kind` always stands before `prev`, so that a
    /// comma is right in both places.
    pub(crate) fn splice(&self, out: &mut Vec<u8>, prev: &[u8; 32], seq: u64) {
        out.extend_from_slice(&self.text[..self.prev_at]);
        out.extend_from_slice(b",\"prev\":\"");
        crate::canonical::write_hex(out, prev);
        out.push(b'"');
        out.extend_from_slice(&self.text[self.prev_at..self.seq_at]);
        out.extend_from_slice(b",\"seq\":");
        crate::canonical::write_integer(out, seq);
        out.extend_from_slice(&self.text[self.seq_at..]);
    }
}

fn integer(line: &mut CanonicalObject, name: &str, value: Option<u64>) {
    if let Some(value) = value {
        line.integer(name, value);
    }
}

fn text(line: &mut CanonicalObject, name: &str, digest_name: &str, value: Option<&str>) {
    let Some(value) = value else { return };
    // The usual case: no digest is taken.
    if value.len() <= LONGEST_TEXT {
        return line.string(name, value);
    }
    // Two long names that begin alike must not read alike.
    line.string(name, &value[..value.floor_char_boundary(LONGEST_TEXT)]);
    line.hex(digest_name, digest::digest(&digest::SHA256, value.as_bytes()).as_ref());
}

fn decision_text(decision: &DecisionRecord<'_>) -> Vec<u8> {
    let mut text = CanonicalObject::with_capacity(64);
    text.string("by", decision.by);
    // An empty list would say that no policy decided, where none was asked.
    if !decision.policies.is_empty() {
        let mut list = vec![b'['];
        for policy in decision.policies {
            if list.len() > 1 {
                list.push(b',');
            }
            crate::canonical::write_string(&mut list, &policy[..policy.floor_char_boundary(LONGEST_TEXT)]);
        }
        list.push(b']');
        text.raw("policies", &list);
    }
    text.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(record: &AuditRecord<'_>) -> String {
        let key = AuditKey::from_seed(&[7; 32]).unwrap();
        let policy = ArgumentPolicy::Digest;
        let mut out = Vec::new();
        PreparedLine::new(record, AuditTime::from_micros(1), &policy, &key).splice(&mut out, &[0xab; 32], 42);
        String::from_utf8(out).unwrap()
    }

    fn canonical(line: &str) -> String {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        serde_json_canonicalizer::to_string(&value).unwrap()
    }

    proptest! {
        #[test]
        fn every_line_is_canonical_whatever_names_callers_choose(
            words in proptest::collection::vec("\\PC{0,300}|[\\x00-\\x7f]{0,300}", 10),
            mask in 0_u32..(1 << 20),
            number in 0_u64..(1 << 53),
        ) {
            let word = |at: usize| (mask >> at & 1 == 1).then(|| words[at].as_str());
            let many = |at: u32| (mask >> at & 1 == 1).then_some(number);
            let policies = [words[0].clone(), words[1].clone()];
            let record = AuditRecord {
                identity: word(0), client: word(1), tenant: word(2), action: word(3), server: word(4), name: word(5),
                face: word(6), era: word(7), request_id: word(8), trace_id: word(9), address: word(0), code: word(1),
                decision: many(10).map(|_| DecisionRecord { by: "policy", policies: &policies }),
                outcome: many(11).map(|_| AuditOutcome::Ok), micros: many(12).map(|micros| micros >> 20),
                bytes: many(13), begun: many(14), count: many(15),
                arguments: many(16).map(|_| r#"{"b":1,"a":[2.50]}"#),
                ..AuditRecord::new(AuditKind::CallBegun)
            };
            let line = line(&record);
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(canonical(&line), line);
        }
    }

    #[test]
    fn a_short_record_has_its_place_in_the_chain_and_nothing_that_is_absent() {
        let line = line(&AuditRecord::new(AuditKind::Config));
        assert_eq!(
            line,
            format!(
                r#"{{"kind":"config","prev":"{}","seq":42,"time":"1970-01-01T00:00:00.000001Z"}}"#,
                "ab".repeat(32)
            )
        );
    }

    #[test]
    fn a_long_name_is_cut_and_has_its_digest_beside_it() {
        let [first, second] = ["1", "2"].map(|end| "é".repeat(200) + end);
        let [one, two] = [&first, &second].map(|name| {
            let line = line(&AuditRecord { name: Some(name), ..AuditRecord::new(AuditKind::CallBegun) });
            serde_json::from_str::<serde_json::Value>(&line).unwrap()
        });
        assert_eq!(one["name"], two["name"]);
        assert_eq!(one["name"].as_str().unwrap().len(), 256);
        assert_ne!(one["nameDigest"], two["nameDigest"]);
    }

    #[test]
    fn kinds_are_read_as_they_are_written() {
        for kind in AuditKind::ALL {
            assert_eq!(AuditKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(AuditKind::parse("call"), None);
    }
}
