//! How strictly a server is held to its pins.

use serde::Serialize;

/// What happens when a server offers something that is not pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PinMode {
    /// Nothing is compared.
    Off,
    /// What differs from the lock file passes and is reported. What the file does not have is remembered for as long
    /// as the process runs.
    #[default]
    Warn,
    /// Only what is pinned passes.
    Enforce,
    /// What is seen first is written to the lock file; later only what is pinned passes.
    Tofu,
}

impl PinMode {
    /// Whether a difference is kept from callers.
    pub fn is_strict(self) -> bool {
        matches!(self, PinMode::Enforce | PinMode::Tofu)
    }

    /// Whether what is seen for the first time is pinned.
    pub fn pins_first_sight(self) -> bool {
        matches!(self, PinMode::Warn | PinMode::Tofu)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            PinMode::Off => "off",
            PinMode::Warn => "warn",
            PinMode::Enforce => "enforce",
            PinMode::Tofu => "tofu",
        }
    }
}

/// What happens to a definition that the lint finds suspicious.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LintMode {
    /// It is not looked at.
    Off,
    /// It is reported.
    #[default]
    Warn,
    /// It is not listed and cannot be used.
    Quarantine,
}

/// How strictly one server is held to its pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PinPolicy {
    pub mode: PinMode,
    pub lint: LintMode,
    /// Whether arguments that the pinned schema does not name are refused; `None` means where `mode` is `enforce`.
    pub strict_arguments: Option<bool>,
}

impl PinPolicy {
    /// Nothing is compared and nothing is looked at.
    pub const OFF: PinPolicy = PinPolicy { mode: PinMode::Off, lint: LintMode::Off, strict_arguments: Some(false) };

    /// Whether arguments that the pinned schema does not name are refused.
    pub fn refuses_unnamed_arguments(&self) -> bool {
        self.mode != PinMode::Off && self.strict_arguments.unwrap_or(self.mode == PinMode::Enforce)
    }

    /// Whether a catalog is looked at.
    pub fn is_on(&self) -> bool {
        self.mode != PinMode::Off
    }

    /// Whether a call may be refused because of it.
    pub fn may_refuse(&self) -> bool {
        self.is_on() && (self.mode.is_strict() || self.lint == LintMode::Quarantine || self.refuses_unnamed_arguments())
    }
}
