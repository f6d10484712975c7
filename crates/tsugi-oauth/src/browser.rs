//! What an embedding program supplies for a sign-in: a way to show an address, and where the answer comes back.

use futures_util::future::BoxFuture;
use url::Url;

use crate::device::DeviceCode;
use crate::failure::OauthFailure;

/// Shows the sign-in page of a provider to a person.
pub trait SignInBrowser: Send + Sync {
    /// Prepares one sign-in: from now on there is an address for the answer.
    fn prepare(&self) -> BoxFuture<'_, Result<Box<dyn SignInWindow>, OauthFailure>>;
}

/// One sign-in.
pub trait SignInWindow: Send {
    /// Where the provider sends the person back to.
    fn redirect_uri(&self) -> &str;

    /// Shows the page and waits for the answer: the whole address that the provider redirected to.
    fn visit(self: Box<Self>, page: Url) -> BoxFuture<'static, Result<String, OauthFailure>>;
}

/// Shows a code that a person types in on another device.
pub trait DeviceDisplay: Send + Sync {
    fn show(&self, code: &DeviceCode);
}
