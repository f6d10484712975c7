//! A secret that is wiped from memory when it is dropped, and that cannot be printed.

use zeroize::Zeroizing;

/// A text that must not be shown: a client's secret, a token.
///
/// It has neither `Debug` nor `Display` nor `Serialize` nor `Clone`, so that printing or copying it does not compile.
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    pub fn new(value: impl Into<String>) -> Self {
        Self(Zeroizing::new(value.into()))
    }

    /// The value itself, for the one place that sends or compares it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}
