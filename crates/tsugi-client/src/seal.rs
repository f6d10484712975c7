//! Seals state that callers bring back: encrypted, bound to its caller and call, and valid for a limited time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tsugi_protocol::answer::identity::{ClientId, TenantName};
use tsugi_protocol::answer::{Call, CallOwner};
use tsugi_protocol::json::ObjectWriter;

/// Seals and opens `requestState`. Replicas that share a key open each other's.
pub struct StateSealer {
    key: LessSafeKey,
    random: SystemRandom,
}

impl std::fmt::Debug for StateSealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer(…)")
    }
}

/// Whose it is.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
struct EnvelopeOwner {
    /// The caller's identity, as text.
    c: String,
    /// The OAuth client that brought the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    a: Option<String>,
    /// The caller's tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    t: Option<String>,
}

/// The plain text of a sealed state.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
struct SealedEnvelope {
    #[serde(flatten)]
    owner: EnvelopeOwner,
    /// The server.
    s: String,
    /// Method and parameters, as a digest.
    d: String,
    /// Expiry, in milliseconds since 1970.
    e: u64,
    /// What was sealed.
    v: SealedState,
}

impl EnvelopeOwner {
    fn new(owner: &CallOwner) -> Self {
        Self {
            c: owner.identity.to_string(),
            a: owner.client.as_ref().map(|client| client.as_str().to_owned()),
            t: owner.tenant.as_ref().map(|tenant| tenant.as_str().to_owned()),
        }
    }

    fn is_of(&self, owner: &CallOwner) -> bool {
        // Different identities have different texts.
        self.c == owner.identity.to_string()
            && self.a.as_deref() == owner.client.as_ref().map(ClientId::as_str)
            && self.t.as_deref() == owner.tenant.as_ref().map(TenantName::as_str)
    }
}

/// The content of a sealed state.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SealedState {
    /// A modern server's own state, to be sent back to it.
    State(String),
    /// The number of a parked call.
    Parked(u64),
    /// A task that we wait for.
    Task(WaitedTask),
}

/// How far the wait for a task has come.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct WaitedTask {
    /// The server's own name for the task.
    pub(crate) id: String,
    /// The keys of the questions that were answered. Each is asked once.
    pub(crate) answered: Vec<String>,
}

/// A task of a server, and the tool that it came from.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct TaskTicket {
    pub server: String,
    pub tool: String,
    /// The server's own name for the task.
    pub id: String,
}

/// The plain text of a sealed task.
#[derive(Debug, Serialize, Deserialize)]
struct TaskEnvelope {
    #[serde(flatten)]
    owner: EnvelopeOwner,
    #[serde(flatten)]
    ticket: TaskTicket,
}

/// Distinguishes sealed tasks from sealed states: neither opens as the other.
const TASK_PURPOSE: &[u8] = b"task";
const STATE_PURPOSE: &[u8] = b"";

/// Why a state is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SealRejection {
    #[error("the request state was not made here or was changed")]
    Forged,
    #[error("the request state has expired")]
    Expired,
    #[error("the request state belongs to another caller")]
    OtherCaller,
    #[error("the request state belongs to another request")]
    OtherCall,
}

impl StateSealer {
    /// With a random key that ends with the process.
    pub fn random() -> Self {
        let random = SystemRandom::new();
        let mut key = [0; 32];
        random.fill(&mut key).expect("the system gives random bytes");
        Self::with_key(&key)
    }

    /// With a key shared by replicas.
    pub fn with_key(key: &[u8; 32]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, key).expect("the key has the length the algorithm wants");
        Self { key: LessSafeKey::new(key), random: SystemRandom::new() }
    }

    /// Seals `held` for this caller and call, for `lifetime`.
    pub(crate) fn seal(&self, server: &str, call: &Call, held: SealedState, lifetime: Duration) -> String {
        self.seal_until(server, call, held, now_ms().saturating_add(lifetime.as_millis() as u64))
    }

    fn seal_until(&self, server: &str, call: &Call, held: SealedState, expiry: u64) -> String {
        let sealed = SealedEnvelope {
            owner: EnvelopeOwner::new(call.caller.owner()),
            s: server.to_owned(),
            d: digest_of(call),
            e: expiry,
            v: held,
        };
        self.encrypt(&sealed, STATE_PURPOSE)
    }

    /// Names a task so that only its owner can ask about it. The name does not expire: how long a task is kept is for
    /// its server to say.
    pub fn seal_task(&self, owner: &CallOwner, ticket: TaskTicket) -> String {
        self.encrypt(&TaskEnvelope { owner: EnvelopeOwner::new(owner), ticket }, TASK_PURPOSE)
    }

    /// The task that this owner names; `None` for another owner's, one of another process, and any other text.
    pub fn open_task(&self, owner: &CallOwner, name: &str) -> Option<TaskTicket> {
        let sealed: TaskEnvelope = self.decrypt(name, TASK_PURPOSE)?;
        sealed.owner.is_of(owner).then_some(sealed.ticket)
    }

    fn encrypt(&self, sealed: &impl Serialize, purpose: &[u8]) -> String {
        let mut bytes = serde_json::to_vec(sealed).expect("a sealed state is always JSON");
        // A random nonce: replicas share the key, so a counter would repeat.
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).expect("the system gives random bytes");
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(purpose), &mut bytes)
            .expect("sealing a small buffer does not fail");
        // The nonce need not be secret, and opening needs it.
        let mut whole = nonce.to_vec();
        whole.extend_from_slice(&bytes);
        URL_SAFE_NO_PAD.encode(whole)
    }

    /// Opens a state that this call brings.
    pub(crate) fn open(&self, server: &str, call: &Call, state: &str) -> Result<SealedState, SealRejection> {
        self.open_at(server, call, state, now_ms())
    }

    fn open_at(&self, server: &str, call: &Call, state: &str, now: u64) -> Result<SealedState, SealRejection> {
        let sealed: SealedEnvelope = self.decrypt(state, STATE_PURPOSE).ok_or(SealRejection::Forged)?;
        // Checked before the expiry, so that another caller learns nothing about it.
        if !sealed.owner.is_of(call.caller.owner()) {
            return Err(SealRejection::OtherCaller);
        }
        if sealed.s != server || sealed.d != digest_of(call) {
            return Err(SealRejection::OtherCall);
        }
        if sealed.e < now {
            return Err(SealRejection::Expired);
        }
        Ok(sealed.v)
    }

    fn decrypt<T: DeserializeOwned>(&self, state: &str, purpose: &[u8]) -> Option<T> {
        let mut whole = URL_SAFE_NO_PAD.decode(state).ok()?;
        if whole.len() < NONCE_LEN {
            return None;
        }
        let mut sealed = whole.split_off(NONCE_LEN);
        // The tag is checked before anything inside is read.
        let nonce = Nonce::try_assume_unique_for_key(&whole).ok()?;
        let opened = self.key.open_in_place(nonce, Aad::from(purpose), &mut sealed).ok()?;
        serde_json::from_slice(opened).ok()
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// A digest of method and parameters, without the members that a retry adds. Keys are sorted first: a client may write
/// the same arguments in another order the second time.
fn digest_of(call: &Call) -> String {
    let mut params = ObjectWriter::with_capacity(call.params.bytes().len());
    params.members(&call.params, |key| key != "inputResponses" && key != "requestState");
    let value: serde_json::Value = params.finish().to().unwrap_or_default();
    let text = format!("{}\n{}", call.method, sorted(value));
    URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes()))
}

fn sorted(value: serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            members.sort_by(|left, right| left.0.cmp(&right.0));
            serde_json::Value::Object(members.into_iter().collect())
        }
        serde_json::Value::Array(items) => items.into_iter().map(sorted).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tsugi_protocol::answer::{Caller, Identity};
    use tsugi_protocol::json::RawJson;

    const HOUR: Duration = Duration::from_secs(3600);

    fn call(arguments: &'static str) -> Call {
        Call::tool("t", Some(&RawJson::literal(arguments))).from_caller(Caller::of_key("ann"))
    }

    #[test]
    fn only_the_same_caller_with_the_same_call_opens_it() {
        let sealer = StateSealer::random();
        let state = sealer.seal("s", &call(r#"{"a":1,"b":2}"#), SealedState::Parked(7), HOUR);
        assert_eq!(sealer.open("s", &call(r#"{"b":2,"a":1}"#), &state), Ok(SealedState::Parked(7)));
        let retry = call(r#"{"a":1,"b":2}"#).retry_with(Some(&RawJson::literal("{}")), Some(&state));
        assert_eq!(sealer.open("s", &retry, &state), Ok(SealedState::Parked(7)));
        let bob = call(r#"{"a":1,"b":2}"#).from_caller(Caller::of_key("bob"));
        assert_eq!(sealer.open("s", &bob, &state), Err(SealRejection::OtherCaller));
        assert_eq!(sealer.open("s", &call(r#"{"a":2,"b":2}"#), &state), Err(SealRejection::OtherCall));
        assert_eq!(sealer.open("other", &call(r#"{"a":1,"b":2}"#), &state), Err(SealRejection::OtherCall));
        assert_eq!(StateSealer::random().open("s", &call(r#"{"a":1,"b":2}"#), &state), Err(SealRejection::Forged));
    }

    #[test]
    fn a_subject_that_is_named_like_another_caller_does_not_open_its_state() {
        let sealer = StateSealer::random();
        let owners = |name: &'static str| {
            let subject = |issuer: &'static str| CallOwner::from(Identity::subject(issuer, name));
            let of_client = CallOwner { client: Some(ClientId::new("editor")), ..subject("corp") };
            let of_tenant = CallOwner { tenant: Some(TenantName::new("acme")), ..subject("corp") };
            let key = CallOwner::from(Identity::key(name));
            [key, subject("corp"), subject("other"), of_client, of_tenant]
        };
        let mut owners: Vec<CallOwner> =
            ["local", "anonymous", "pm:agt_boss@pm", "ann"].into_iter().flat_map(owners).collect();
        owners
            .extend([Identity::Local, Identity::Anonymous, Identity::pm_token("agt_boss", "pm")].map(CallOwner::from));
        let call_of = |owner: &CallOwner| call("{}").from_caller(Caller::of(owner.clone()));
        for one in &owners {
            let state = sealer.seal("s", &call_of(one), SealedState::Parked(7), HOUR);
            for other in &owners {
                let opened = sealer.open("s", &call_of(other), &state);
                let expected = if one == other { Ok(SealedState::Parked(7)) } else { Err(SealRejection::OtherCaller) };
                assert_eq!(opened, expected, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_task_is_opened_by_its_owner_alone_and_is_not_a_state() {
        let sealer = StateSealer::random();
        let ticket = TaskTicket { server: "s".into(), tool: "t".into(), id: "786512e2".into() };
        let (ann, bob) = (Caller::of_key("ann"), Caller::of_key("bob"));
        let name = sealer.seal_task(ann.owner(), ticket.clone());
        assert_eq!(sealer.open_task(ann.owner(), &name), Some(ticket));
        assert_eq!(sealer.open_task(bob.owner(), &name), None);
        assert_eq!(StateSealer::random().open_task(ann.owner(), &name), None);
        assert_eq!(sealer.open("s", &call("{}"), &name), Err(SealRejection::Forged));
        let state = sealer.seal("s", &call("{}"), SealedState::State("x".into()), HOUR);
        for other in [&state, "", "786512e2", &name[1..]] {
            assert_eq!(sealer.open_task(ann.owner(), other), None, "{other}");
        }
    }

    #[test]
    fn a_late_state_is_refused() {
        let sealer = StateSealer::random();
        let state = sealer.seal("s", &call("{}"), SealedState::State("x".into()), Duration::ZERO);
        assert_eq!(sealer.open_at("s", &call("{}"), &state, now_ms() + 1), Err(SealRejection::Expired));
    }

    #[test]
    fn a_clock_that_jumps_moves_the_expiry_and_nothing_else() {
        let (sealer, now, hour) = (StateSealer::random(), 1_800_000_000_000, 3_600_000);
        let state = sealer.seal_until("s", &call("{}"), SealedState::Parked(7), now + 600_000);
        let open_at = |call: &Call, now: u64| sealer.open_at("s", call, &state, now);
        assert_eq!(open_at(&call("{}"), now + hour), Err(SealRejection::Expired), "an hour ahead");
        for earlier in [now - hour, 0] {
            assert_eq!(open_at(&call("{}"), earlier), Ok(SealedState::Parked(7)), "back");
            let bob = call("{}").from_caller(Caller::of_key("bob"));
            assert_eq!(open_at(&bob, earlier), Err(SealRejection::OtherCaller), "and it opens for no other caller");
        }
        let late = sealer.seal_until("s", &call("{}"), SealedState::Parked(7), u64::MAX);
        assert_eq!(sealer.open_at("s", &call("{}"), &late, u64::MAX), Ok(SealedState::Parked(7)), "nothing overflows");
    }

    #[test]
    fn no_change_of_a_single_bit_is_accepted() {
        let sealer = StateSealer::random();
        let state = sealer.seal("s", &call("{}"), SealedState::State("secret".into()), HOUR);
        let bytes = URL_SAFE_NO_PAD.decode(&state).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let changed = URL_SAFE_NO_PAD.encode(changed);
            assert_eq!(sealer.open("s", &call("{}"), &changed), Err(SealRejection::Forged));
        }
        for junk in ["", "AAAA", "not base64!", &state[1..]] {
            assert_eq!(sealer.open("s", &call("{}"), junk), Err(SealRejection::Forged));
        }
    }
}
