//! Settings of pins: how strictly servers are held to what they offered before.

use tsugi_client::config::{LintMode, PinMode, PinPolicy};

use crate::config::key::settings;
use crate::config::key::value::{FLAG, keyword};
use crate::config::resolve::reader::{SettingsReader, SettingsSection};

settings! {
    pin at "pin": "How strictly a server is held to `tsugi.lock`: in `options` and in a server. A single word is the mode."
    => library PinPolicy(reader, section, base: PinPolicy) {
        custom MODE mode: PinMode = "mode", keyword(), "warn", "What happens to definitions that are not in the lock file. `warn` lets them pass and reports them, and never writes the file; `enforce` lets only what is in the file pass; `tofu` writes down what it sees first and then enforces it.", reader.optional(section, &pin::MODE).unwrap_or(base.mode);
        custom LINT lint: LintMode = "lint", keyword(), "warn", "What happens to new and changed definitions that look suspicious: hidden characters, look-alike names, words to the model. `quarantine` does not list them until they are accepted.", reader.optional(section, &pin::LINT).unwrap_or(base.lint);
        maybe_custom STRICT_ARGUMENTS strict_arguments: bool = "strictArguments", FLAG, "", "Refuse arguments that the pinned schema does not name, although it would let them pass. Default: with `enforce`.", reader.optional(section, &pin::STRICT_ARGUMENTS).or(base.strict_arguments);
    }
}
