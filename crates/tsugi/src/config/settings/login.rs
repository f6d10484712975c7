//! Settings of the sign-in at the dashboard through a provider.

use std::time::Duration;

use serde::Serialize;
use tsugi_gateway::guard::api_key::KeyRole;

use super::milliseconds;
use crate::config::key::settings;
use crate::config::key::shape::SchemaShape::*;
use crate::config::key::value::{POSITIVE_DURATION, TEXT, TEXTS};
use crate::config::secret::Secret;

settings! {
    /// People sign in at the dashboard through this issuer (OpenID Connect), beside keys. The provider must know
    /// `<publicUrl>/auth/callback/<name of the issuer>` as a redirect address, and `<publicUrl>/` for the way back after signing out.
    sign_in at "gateway.auth.issuers[].signIn"
    keys {
        /// The id under which the provider knows the gateway.
        CLIENT_ID: String = key("clientId") value(TEXT);
        /// The secret of that client; better from a variable or a file. Absent for a public client.
        CLIENT_SECRET = key("clientSecret") shape(Text);
        /// What the button on the sign-in page says. Default: the `name` of the issuer.
        LABEL: String = key("label") value(TEXT);
        /// What the provider is asked for. `openid` must be among it; some providers want one more, such as `groups`,
        /// before they send roles.
        SCOPES: String = key("scopes") value(TEXTS) default("[\"openid\", \"profile\"]");
        /// What people are who have none of `roles`: `user` or `readOnly`. Absent: they are not let in.
        DEFAULT_ROLE: String = key("defaultRole") value(TEXT);
        /// A sign-in without a request for this long ends.
        IDLE_TIMEOUT: Duration = key("idleTimeout") value(POSITIVE_DURATION) default("30m");
        /// A sign-in ends after this time, used or not. Roles that change at the provider hold from the next one.
        MAX_AGE: Duration = key("maxAge") value(POSITIVE_DURATION) default("8h");
    }
}

/// The sign-in through one issuer, checked.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignInSettings {
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<Secret>,
    pub(crate) label: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) default_role: Option<KeyRole>,
    #[serde(serialize_with = "milliseconds")]
    pub(crate) idle_timeout: Duration,
    #[serde(serialize_with = "milliseconds")]
    pub(crate) max_age: Duration,
}
