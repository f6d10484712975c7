//! The policy as people write it: `off`, `default`, or rules.

use std::{fmt, path::PathBuf};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};
use tsugi_outbound::EgressList;

/// What a child may touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SandboxPolicy {
    /// Whatever the user may who runs us.
    #[default]
    Off,
    /// [`SandboxRules::default`], which ordinary npm and PyPI servers can live with.
    Default,
    /// These rules.
    Rules(SandboxRules),
}

impl SandboxPolicy {
    /// The rules to enforce, if any.
    pub fn rules(&self) -> Option<SandboxRules> {
        match self {
            SandboxPolicy::Off => None,
            SandboxPolicy::Default => Some(SandboxRules::default()),
            SandboxPolicy::Rules(rules) => Some(rules.clone()),
        }
    }
}

/// What a child may touch; whatever is left out is as in the default.
///
/// System directories, language installations and the program's own files can always be read,
/// since nothing runs without them, and every job has temporary directories of its own.
/// Keys and credentials known by their place (`~/.ssh`, `~/.aws`, browser profiles and others) cannot be read
/// even where a rule would include them; name one itself to allow it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SandboxRules {
    /// What can be read besides; the working directory if left out.
    pub read: Option<Vec<PathBuf>>,
    /// What can be written (and read); the working directory if left out.
    pub write: Option<Vec<PathBuf>>,
    /// Package caches in the home directory, which `npx` and `uvx` fill.
    pub caches: CacheAccess,
    /// Whom it may talk to.
    pub net: NetworkAccess,
    /// Variables of ours that it receives besides the usual ones.
    pub env: Vec<String>,
    /// Memory of all its processes together; 0 means no limit.
    pub memory: MemorySize,
    /// Whole processor cores it may use; no limit if left out.
    pub cpu: Option<u32>,
    /// How many processes it may have at once; 0 means no limit.
    pub processes: u32,
    /// How far it is separated from other processes.
    pub isolation: Isolation,
    /// Whether a rule that cannot be enforced here is an error; otherwise it is only reported.
    pub required: bool,
}

impl Default for SandboxRules {
    fn default() -> Self {
        SandboxRules {
            read: None,
            write: None,
            caches: CacheAccess::Write,
            net: NetworkAccess::All,
            env: Vec::new(),
            memory: MemorySize(2 << 30),
            cpu: None,
            processes: 256,
            isolation: Isolation::Auto,
            // Running with less protection than the rules promise must be asked for.
            required: true,
        }
    }
}

/// What a child may do with package caches.
///
/// A child that can write them can leave code there that another program later runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CacheAccess {
    /// Not even read them.
    None,
    /// Read them: enough for a server that is already installed.
    Read,
    /// Read and write them.
    #[default]
    Write,
}

/// Whom a child may talk to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NetworkAccess {
    /// No host at all.
    None,
    /// Its own processes, over a loopback device of its own.
    /// Services on *this machine's* loopback cannot be reached: the kernel can only give all of it or none.
    Loopback,
    /// These hosts, through a proxy that is the only way out of a network of its own. `HTTP_PROXY` and its like name the
    /// proxy; a child that does not use it reaches its own processes alone.
    Allow(EgressList),
    /// Everybody.
    #[default]
    All,
}

/// How far a child is separated from other processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Isolation {
    /// As strict where the kernel allows it, as standard elsewhere.
    #[default]
    Auto,
    /// No namespaces: process ids and the network look as they do to everyone.
    Standard,
    /// Namespaces of its own for processes, mounts, IPC and (unless `net` is `all`) the network:
    /// it sees only its own processes, and the kernel ends them together.
    Strict,
}

/// An amount of memory: bytes, or text such as `512M` or `2GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemorySize(pub u64);

impl MemorySize {
    fn parse(text: &str) -> Option<MemorySize> {
        let text = text.trim();
        let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit = unit.trim().to_ascii_uppercase();
        // `M`, `MB` and `MiB` all mean 2^20 bytes.
        let shift = match unit.trim_end_matches('B').trim_end_matches('I') {
            "" => 0,
            "K" => 10,
            "M" => 20,
            "G" => 30,
            _ => return None,
        };
        // An amount that does not fit is an error, not a small one.
        number.parse::<u64>().ok()?.checked_mul(1 << shift).map(MemorySize)
    }
}

impl<'de> Deserialize<'de> for MemorySize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MemoryVisitor)
    }
}

struct MemoryVisitor;

impl Visitor<'_> for MemoryVisitor {
    type Value = MemorySize;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("bytes, or text such as \"512M\" or \"2G\"")
    }

    fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<MemorySize, E> {
        Ok(MemorySize(bytes))
    }

    // YAML and TOML give signed numbers.
    fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<MemorySize, E> {
        u64::try_from(bytes).map(MemorySize).map_err(|_| E::invalid_value(de::Unexpected::Signed(bytes), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<MemorySize, E> {
        MemorySize::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

impl Serialize for SandboxPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            SandboxPolicy::Off => serializer.serialize_str("off"),
            SandboxPolicy::Default => serializer.serialize_str("default"),
            SandboxPolicy::Rules(rules) => rules.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SandboxPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PolicyVisitor)
    }
}

/// Written by hand because an untagged enum would hide which key of the rules is wrong.
struct PolicyVisitor;

impl<'de> Visitor<'de> for PolicyVisitor {
    type Value = SandboxPolicy;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("`off`, `default` or a map of sandbox rules")
    }

    /// Some dialects of YAML read `off` as false.
    fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<SandboxPolicy, E> {
        // `sandbox: false` is a natural way to write `off`.
        Ok(if is_on { SandboxPolicy::Default } else { SandboxPolicy::Off })
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<SandboxPolicy, E> {
        match text {
            "off" => Ok(SandboxPolicy::Off),
            "default" => Ok(SandboxPolicy::Default),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SandboxPolicy, A::Error> {
        SandboxRules::deserialize(MapAccessDeserializer::new(map)).map(SandboxPolicy::Rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SandboxPolicy, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_policy_is_a_word_or_rules() {
        assert_eq!(parse("\"off\""), Ok(SandboxPolicy::Off));
        assert_eq!(parse("false"), Ok(SandboxPolicy::Off));
        assert_eq!(parse("\"default\""), Ok(SandboxPolicy::Default));
        assert_eq!(parse("{}"), Ok(SandboxPolicy::Rules(SandboxRules::default())));
        let rules = SandboxRules {
            net: NetworkAccess::None,
            write: Some(vec!["/data".into()]),
            memory: MemorySize(512 << 20),
            ..SandboxRules::default()
        };
        assert_eq!(parse(r#"{"net":"none","write":["/data"],"memory":"512M"}"#), Ok(SandboxPolicy::Rules(rules)));
    }

    #[test]
    fn a_network_is_a_word_or_a_list_of_hosts() {
        let SandboxPolicy::Rules(rules) = parse(r#"{"net":{"allow":["api.example.com:443"]}}"#).unwrap() else {
            panic!("rules were written");
        };
        assert_eq!(rules.net, NetworkAccess::Allow(EgressList::parse(["api.example.com:443"]).unwrap()));
        assert!(parse(r#"{"net":{"allow":["*"]}}"#).unwrap_err().contains("`*`"));
    }

    #[test]
    fn a_mistake_is_named() {
        assert!(parse(r#"{"nett":"none"}"#).unwrap_err().contains("nett"));
        assert!(parse("\"on\"").unwrap_err().contains("`off`, `default`"));
        assert!(parse(r#"{"memory":"much"}"#).unwrap_err().contains("much"));
    }

    #[test]
    fn memory_is_read_in_the_usual_units() {
        for (text, bytes) in [("12", 12), ("1K", 1 << 10), ("2MiB", 2 << 20), ("3 GB", 3 << 30)] {
            assert_eq!(MemorySize::parse(text), Some(MemorySize(bytes)), "{text}");
        }
        assert_eq!(MemorySize::parse("1T"), None);
    }

    #[test]
    fn a_policy_survives_being_written_and_read() {
        for policy in [
            SandboxPolicy::Off,
            SandboxPolicy::Default,
            SandboxPolicy::Rules(SandboxRules { cpu: Some(1), ..SandboxRules::default() }),
            SandboxPolicy::Rules(SandboxRules {
                net: NetworkAccess::Allow(EgressList::parse(["*.example.com", "10.0.0.1:80"]).unwrap()),
                ..SandboxRules::default()
            }),
        ] {
            assert_eq!(parse(&serde_json::to_string(&policy).unwrap()), Ok(policy));
        }
    }
}
