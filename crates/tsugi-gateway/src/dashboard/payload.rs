//! What a call was given and what came of it, for the page of that call: the last ones, bounded, in memory alone.

use std::collections::VecDeque;

use serde_json::{Value, json};
use tsugi_protocol::answer::{CallFailure, Outcome};
use tsugi_protocol::json::RawJson;

/// Larger arguments and results are not read at all.
const LARGEST: usize = 1 << 20;
/// Longer texts are cut, which also leaves out pictures.
const LONGEST_TEXT: usize = 4000;
/// Longer lists are cut.
const LONGEST_LIST: usize = 100;
/// Bytes of all recorded arguments and results together.
const ROOM: usize = 4 << 20;
/// Calls whose arguments and results are recorded.
const MOST: usize = 512;

/// Parts of names whose values are not recorded.
const SECRET_NAMES: [&str; 8] =
    ["password", "passwd", "secret", "token", "apikey", "authorization", "credential", "privatekey"];

/// Which calls are recorded with their arguments and results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordMode {
    Off,
    /// Those that fail.
    Errors,
    All,
}

/// The arguments of a call and what it returned, without secrets that can be told by their names.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CallPayload {
    pub(super) arguments: Value,
    pub(super) result: Value,
    bytes: usize,
}

impl CallPayload {
    pub(super) fn new(arguments: Option<&RawJson>, outcome: Option<&Outcome>) -> Self {
        let arguments = arguments.map(bounded).unwrap_or_default();
        let result = match outcome {
            Some(Outcome::Complete(complete)) => bounded(&complete.body.raw()),
            Some(Outcome::Failed(CallFailure::Upstream(error))) => {
                let data = error.data().filter(|data| !data.is_null()).map(|data| bounded(&data));
                json!({"code": error.code(), "message": shortened(&error.message()), "data": data})
            }
            // A fault of ours is told as the error of the call.
            _ => Value::Null,
        };
        let bytes = arguments.to_string().len() + result.to_string().len();
        Self { arguments, result, bytes }
    }
}

/// The last recorded calls, oldest first.
#[derive(Debug, Default)]
pub(super) struct PayloadRing {
    calls: VecDeque<(u64, CallPayload)>,
    bytes: usize,
}

impl PayloadRing {
    /// Ids only grow.
    pub(super) fn push(&mut self, id: u64, payload: CallPayload) {
        self.bytes += payload.bytes;
        self.calls.push_back((id, payload));
        while self.calls.len() > MOST || self.bytes > ROOM {
            let Some((_, oldest)) = self.calls.pop_front() else { return };
            self.bytes -= oldest.bytes;
        }
    }

    pub(super) fn get(&self, id: u64) -> Option<&CallPayload> {
        let index = self.calls.binary_search_by_key(&id, |(known, _)| *known).ok()?;
        self.calls.get(index).map(|(_, payload)| payload)
    }
}

/// A value as a page can show it.
fn bounded(raw: &RawJson) -> Value {
    let size = raw.bytes().len();
    if size > LARGEST {
        return json!({"…": format!("{size} bytes, too large to be recorded")});
    }
    cut(raw.to_lossy().unwrap_or_default())
}

fn cut(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(shortened(&text)),
        Value::Array(items) => {
            let more = items.len().saturating_sub(LONGEST_LIST);
            let rest = (more > 0).then(|| Value::String(format!("… {more} more")));
            items.into_iter().take(LONGEST_LIST).map(cut).chain(rest).collect()
        }
        Value::Object(members) => {
            let member = |(name, value): (String, Value)| {
                let value = if is_secret(&name) { "[redacted]".into() } else { cut(value) };
                (name, value)
            };
            members.into_iter().map(member).collect()
        }
        other => other,
    }
}

fn is_secret(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    // `progressToken` and `maxTokens` are no secrets; what is counted ends in `s`.
    SECRET_NAMES.iter().any(|secret| plain.ends_with(secret)) && plain != "progresstoken"
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tsugi_protocol::json::JsonObject;

    fn payload(arguments: Value) -> CallPayload {
        let done = Outcome::complete(JsonObject::from(json!({"content": []})));
        CallPayload::new(Some(&RawJson::from(arguments)), Some(&done))
    }

    #[test]
    fn values_whose_names_say_that_they_are_secret_are_not_recorded() {
        let given = json!({"user": "ann", "db_password": "p", "inner": [{"API-Key": "k", "maxTokens": 5}], "token": 1});
        let expected = json!({
            "user": "ann", "db_password": "[redacted]", "inner": [{"API-Key": "[redacted]", "maxTokens": 5}],
            "token": "[redacted]",
        });
        assert_eq!(payload(given).arguments, expected);
    }

    #[test]
    fn what_is_recorded_is_bounded() {
        let long = payload(json!({"text": "é".repeat(LONGEST_TEXT + 1), "list": vec![0; LONGEST_LIST + 7]}));
        assert!(long.arguments["text"].as_str().unwrap().chars().count() < LONGEST_TEXT + 40);
        assert_eq!(long.arguments["list"][LONGEST_LIST], "… 7 more");
        let huge = payload(json!({"text": "x".repeat(LARGEST)}));
        assert!(huge.arguments.to_string().len() < 200);
        let mut ring = PayloadRing::default();
        (0..2 * MOST as u64).for_each(|id| ring.push(id * 2, payload(json!({"a": 1}))));
        assert!(ring.get(0).is_none() && ring.get(3).is_none());
        assert!(ring.get(4 * MOST as u64 - 2).is_some() && ring.calls.len() == MOST);
        let wide = || payload(json!(vec!["y".repeat(LONGEST_TEXT); 90]));
        (0..40).for_each(|id| ring.push(10_000 + id, wide()));
        assert!(ring.bytes <= ROOM && ring.bytes == ring.calls.iter().map(|(_, payload)| payload.bytes).sum::<usize>());
    }
}
