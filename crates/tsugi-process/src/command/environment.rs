//! Which variables a child sees, so that our own secrets do not leak into every server.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

use super::EnvInheritance;

const USUAL: &[&str] = &[
    "PATH",
    "HOME",
    "LANG",
    "LANGUAGE",
    "TERM",
    "TMPDIR",
    "TMP",
    "TEMP",
    "TZ",
    "USER",
    "LOGNAME",
    "SHELL",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "NO_PROXY",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "http_proxy",
    "https_proxy",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "COLORTERM",
    "NVM_DIR",
    "PYENV_ROOT",
    "VOLTA_HOME",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "JAVA_HOME",
];

/// Inherited by the beginning of the name.
const USUAL_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// Parts of a name that announce a secret.
const SECRET_WORDS: &[&str] = &[
    "TOKEN",
    "KEY",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "AUTH",
    "COOKIE",
    "PRIVATE",
    "DSN",
    "CONNECTION_STRING",
    "DATABASE_URL",
    "_PAT",
    "_PWD",
];

/// Whether a variable of this name probably holds a secret.
pub(crate) fn looks_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// The child's whole environment: what is inherited, then what is set over it.
pub(super) fn assemble(
    inherit: &EnvInheritance,
    ours: impl Iterator<Item = (OsString, OsString)>,
    set: &BTreeMap<OsString, OsString>,
) -> BTreeMap<OsString, OsString> {
    let mut all: BTreeMap<_, _> = ours.filter(|(name, _)| is_inherited(inherit, name)).collect();
    all.extend(set.iter().map(|(name, value)| (name.clone(), value.clone())));
    all
}

fn is_inherited(inherit: &EnvInheritance, name: &OsStr) -> bool {
    match inherit {
        EnvInheritance::Usual => is_usual(name),
        EnvInheritance::Also(names) => is_usual(name) || names.iter().any(|other| other == name),
        EnvInheritance::All => true,
        EnvInheritance::Nothing => false,
    }
}

fn is_usual(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    USUAL.contains(&name) || USUAL_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(inherit: EnvInheritance) -> Vec<String> {
        let ours = ["PATH", "LC_ALL", "GITHUB_TOKEN", "EDITOR"].map(|name| (name.into(), "value".into()));
        let set = BTreeMap::from([("OWN".into(), "1".into())]);
        let all = assemble(&inherit, ours.into_iter(), &set);
        all.into_keys().map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn only_harmless_variables_are_inherited_unless_asked() {
        assert_eq!(names(EnvInheritance::Usual), ["LC_ALL", "OWN", "PATH"]);
        assert_eq!(names(EnvInheritance::Also(vec!["EDITOR".into()])), ["EDITOR", "LC_ALL", "OWN", "PATH"]);
        assert_eq!(names(EnvInheritance::All), ["EDITOR", "GITHUB_TOKEN", "LC_ALL", "OWN", "PATH"]);
        assert_eq!(names(EnvInheritance::Nothing), ["OWN"]);
    }

    #[test]
    fn names_that_announce_a_secret_are_recognised() {
        for name in ["API_KEY", "github_token", "DB_PASSWORD", "GITHUB_PAT", "SENTRY_DSN"] {
            assert!(looks_secret(OsStr::new(name)), "{name}");
        }
        assert!(!looks_secret(OsStr::new("PATH")));
        assert!(!looks_secret(OsStr::new("LANG")));
    }
}
