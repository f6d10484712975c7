//! What a record keeps of a call's arguments: nothing, a keyed digest, or single fields.

use std::collections::HashMap;

use serde_json::Value;

use crate::canonical::{CanonicalObject, write_string};
use crate::checkpoint::AuditKey;
use crate::record::AuditRecord;

/// A larger field is replaced by its digest.
const LONGEST_FIELD: usize = 256;

/// Which parts of arguments are kept. Results never are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ArgumentPolicy {
    #[default]
    None,
    /// HMAC-SHA-256 over the canonical form. A plain hash of a small value could be guessed.
    Digest,
    /// JSON pointers to what is kept, by `server/tool`.
    Fields(HashMap<String, Vec<String>>),
}

/// What is kept of one call's arguments.
pub(crate) enum ArgumentRecord {
    Digest([u8; 32]),
    /// Canonical JSON: an object of pointers and values.
    Fields(Vec<u8>),
    /// The arguments are not JSON. They are not kept, but the line says so.
    Unreadable,
}

impl ArgumentPolicy {
    pub(crate) fn record(&self, record: &AuditRecord<'_>, arguments: &str, key: &AuditKey) -> Option<ArgumentRecord> {
        match self {
            ArgumentPolicy::None => None,
            ArgumentPolicy::Digest => Some(match canonical(arguments) {
                Some(text) => ArgumentRecord::Digest(key.argument_digest(&text)),
                None => ArgumentRecord::Unreadable,
            }),
            ArgumentPolicy::Fields(fields) => {
                let tool = format!("{}/{}", record.server.unwrap_or_default(), record.name.unwrap_or_default());
                let pointers = fields.get(&tool)?;
                Some(match serde_json::from_str(arguments) {
                    Ok(value) => ArgumentRecord::Fields(pick(&value, pointers, key)),
                    Err(_) => ArgumentRecord::Unreadable,
                })
            }
        }
    }
}

impl ArgumentRecord {
    pub(crate) fn to_canonical(&self) -> Vec<u8> {
        let mut text = CanonicalObject::with_capacity(96);
        match self {
            ArgumentRecord::Digest(digest) => text.hex("digest", digest),
            ArgumentRecord::Fields(fields) => text.raw("fields", fields),
            ArgumentRecord::Unreadable => text.raw("unreadable", b"true"),
        }
        text.finish()
    }
}

fn canonical(arguments: &str) -> Option<Vec<u8>> {
    let value: Value = serde_json::from_str(arguments).ok()?;
    serde_json_canonicalizer::to_vec(&value).ok()
}

/// The values behind the pointers. A pointer that leads nowhere is left out.
fn pick(arguments: &Value, pointers: &[String], key: &AuditKey) -> Vec<u8> {
    // Compared by UTF-16 code units, which is the order of RFC 8785.
    let mut sorted: Vec<&String> = pointers.iter().collect();
    sorted.sort_by(|one, other| one.encode_utf16().cmp(other.encode_utf16()));
    sorted.dedup();
    let mut text = vec![b'{'];
    for pointer in sorted {
        let Some(found) = arguments.pointer(pointer).and_then(|value| serde_json_canonicalizer::to_vec(value).ok())
        else {
            continue;
        };
        if text.len() > 1 {
            text.push(b',');
        }
        write_string(&mut text, pointer);
        text.push(b':');
        match found.len() <= LONGEST_FIELD {
            true => text.extend_from_slice(&found),
            false => text.extend_from_slice(&ArgumentRecord::Digest(key.argument_digest(&found)).to_canonical()),
        }
    }
    text.push(b'}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::AuditKind;

    fn kept(policy: &ArgumentPolicy, arguments: &str) -> Option<String> {
        let key = AuditKey::from_seed(&[1; 32]).unwrap();
        let record = AuditRecord { server: Some("mail"), name: Some("send"), ..AuditRecord::new(AuditKind::CallBegun) };
        policy.record(&record, arguments, &key).map(|kept| String::from_utf8(kept.to_canonical()).unwrap())
    }

    #[test]
    fn nothing_of_the_arguments_is_kept_unless_it_was_asked_for() {
        assert_eq!(kept(&ArgumentPolicy::None, r#"{"to":"ann"}"#), None);
        let other = ArgumentPolicy::Fields([("mail/read".to_owned(), vec!["/to".to_owned()])].into());
        assert_eq!(kept(&other, r#"{"to":"ann"}"#), None);
    }

    #[test]
    fn a_digest_depends_on_the_values_and_not_on_their_spelling() {
        let one = kept(&ArgumentPolicy::Digest, r#"{"a":1.0,"b":"\u0041"}"#);
        assert_eq!(one, kept(&ArgumentPolicy::Digest, r#"{ "b":"A", "a":1 }"#));
        assert_ne!(one, kept(&ArgumentPolicy::Digest, r#"{"a":2,"b":"A"}"#));
        assert!(!one.unwrap().contains("\"A\""));
        assert_eq!(kept(&ArgumentPolicy::Digest, "{").unwrap(), r#"{"unreadable":true}"#);
    }

    #[test]
    fn single_fields_are_kept_sorted_and_long_ones_as_their_digest() {
        let pointers = ["/to", "/body", "/absent", "/list/1"].map(str::to_owned).to_vec();
        let policy = ArgumentPolicy::Fields([("mail/send".to_owned(), pointers)].into());
        let arguments = format!(r#"{{"to":"ann\n","body":"{}","secret":"x","list":[1,2.0]}}"#, "b".repeat(300));
        let text = kept(&policy, &arguments).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["fields"]["/to"], "ann\n");
        assert_eq!(value["fields"]["/list/1"], 2);
        assert_eq!(value["fields"]["/body"]["digest"].as_str().unwrap().len(), 64);
        assert!(!text.contains("secret") && !text.contains("absent"));
        assert_eq!(serde_json_canonicalizer::to_string(&value).unwrap(), text);
    }
}
