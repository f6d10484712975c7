//! Settings of the sign-in at the dashboard through a provider.

use std::time::Duration;

use serde::Serialize;
use tsugi_gateway::guard::api_key::KeyRole;

use super::milliseconds;
use crate::config::key::settings;
use crate::config::key::shape::SchemaShape::*;
use crate::config::key::value::{POSITIVE_DURATION, TEXT, TEXTS, by_hand};
use crate::config::secret::Secret;

settings! {
    sign_in at "gateway.auth.issuers[].signIn": "People sign in at the dashboard through this issuer (OpenID Connect), beside keys. The provider must know `<publicUrl>/auth/callback` as a redirect address, and `<publicUrl>/` for the way back after signing out."
    keys {
        CLIENT_ID: String = "clientId", TEXT, "", "The id under which the provider knows the gateway.";
        CLIENT_SECRET: () = "clientSecret", by_hand(Text), "", "The secret of that client; better from a variable or a file. Absent for a public client.";
        LABEL: String = "label", TEXT, "", "What the button on the sign-in page says. Default: the `name` of the issuer.";
        SCOPES: String = "scopes", TEXTS, "[\"openid\", \"profile\"]", "What the provider is asked for. `openid` must be among it; some providers want one more, such as `groups`, before they send roles.";
        DEFAULT_ROLE: String = "defaultRole", TEXT, "", "What people are who have none of `roles`: `user` or `readOnly`. Absent: they are not let in.";
        IDLE_TIMEOUT: Duration = "idleTimeout", POSITIVE_DURATION, "30m", "A sign-in without a request for this long ends.";
        MAX_AGE: Duration = "maxAge", POSITIVE_DURATION, "8h", "A sign-in ends after this time, used or not. Roles that change at the provider hold from the next one.";
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
