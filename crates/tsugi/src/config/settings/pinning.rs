//! Settings of pins: how strictly servers are held to what they offered before.

use tsugi_client::config::{LintMode, PinMode, PinPolicy};

use crate::config::key::settings;
use crate::config::key::value::{FLAG, keyword};
use crate::config::resolve::reader::{SettingsReader, SettingsSection};

settings! {
    /// How strictly a server is held to `tsugi.lock`: in `options` and in a server. A single word is the mode.
    pin at "pin"
    => library PinPolicy(reader, section, base: PinPolicy) {
        /// What happens to definitions that are not in the lock file. `warn` lets them pass and reports them, and never
        /// writes the file; `enforce` lets only what is in the file pass; `tofu` writes down what it sees first and
        /// then enforces it.
        one mode: PinMode = key(MODE: "mode") value(keyword()) default("warn") inherit(base.mode);
        /// What happens to new and changed definitions that look suspicious: hidden characters, look-alike names, words
        /// to the model. `quarantine` does not list them until they are accepted.
        one lint: LintMode = key(LINT: "lint") value(keyword()) default("warn") inherit(base.lint);
        /// Refuse arguments that the pinned schema does not name, although it would let them pass. Default: with
        /// `enforce`.
        maybe strict_arguments: bool =
            key(STRICT_ARGUMENTS: "strictArguments") value(FLAG) inherit(base.strict_arguments);
    }
}
