//! Settings of the sign-in to remote servers, and of the vault that keeps it.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use tsugi_auth::jose::algorithm::SigningAlgorithm;

use crate::config::key::settings;
use crate::config::key::shape::SchemaShape::*;
use crate::config::key::value::{
    POSITIVE_DURATION, PROVIDER_QUIRKS, SCOPE_NAMES, SIGNING_ALGORITHM, SWITCH, TEXT, TEXTS, keyword,
};
use crate::config::secret::Secret;

settings! {
    /// How tsugi signs in to a remote server. Most servers need no such entry: `tsugi login NAME` is enough.
    upstream_auth at "servers[].auth"
    keys {
        /// `oauth`: a person signs in with `tsugi login`. `clientCredentials`: tsugi itself, as `client`. `workload`: with
        /// the token in `tokenFile` (RFC 7523). `enterprise`: with a person's ID token of `provider`. `header`: not at
        /// all, `headers` are enough.
        MODE: UpstreamAuthMode = key("mode") value(keyword()) default("oauth");
        /// Scopes to ask for besides those that the server names.
        SCOPES: String = key("scopes") value(SCOPE_NAMES) default("[]");
        /// The authorization server to take where the server names several.
        ISSUER: String = key("issuer") value(TEXT);
        /// The client as which tsugi signs in. Default: the authorization server registers one.
        CLIENT = key("client") shape(Table("servers[].auth.client"));
        /// With `workload`, the file that holds the workload's token. It is read each time.
        TOKEN_FILE = key("tokenFile") shape(Path);
        /// With `enterprise`, the identity provider of the organization.
        PROVIDER = key("provider") shape(Table("servers[].auth.provider"));
        /// What the provider gets wrong: `assumePkce` if it supports PKCE and does not say so, `noResource` if it refuses
        /// the parameter `resource`. `tsugi doctor` names the one that is needed.
        QUIRKS: ProviderQuirk = key("quirks") value(PROVIDER_QUIRKS) default("[]");
        /// Whether a server without metadata is taken for its own authorization server, as in revision 2025-03-26.
        LEGACY_DISCOVERY: bool = key("legacyDiscovery") value(SWITCH) default("on");
    }
}

settings! {
    /// A client that an authorization server knows already.
    upstream_client at "servers[].auth.client"
    keys {
        /// Its identifier.
        ID: String = key("id") value(TEXT);
        /// Its secret; better from a variable or a file. Absent for a public client.
        SECRET = key("secret") shape(Text);
        /// The private key that it signs assertions with instead of a secret (`private_key_jwt`): a PEM file, PKCS #8.
        KEY = key("key") shape(Path);
        /// The name of that key, where the authorization server knows several.
        KEY_ID: String = key("keyId") value(TEXT);
        /// The algorithm of that key.
        ALGORITHM: SigningAlgorithm = key("algorithm") value(SIGNING_ALGORITHM) default("ES256");
        /// The authorization server that knows the client. Default: the first that it is used with.
        ISSUER: String = key("issuer") value(TEXT);
        /// The https address of a metadata document that describes tsugi, in place of `id`. It is the client's identifier
        /// where the authorization server supports that.
        METADATA_URL: String = key("metadataUrl") value(TEXT);
    }
}

settings! {
    /// The identity provider of an organization, whose ID tokens are exchanged (ID-JAG).
    upstream_provider at "servers[].auth.provider"
    keys {
        /// Its issuer.
        ISSUER: String = key("issuer") value(TEXT);
        /// The client that tsugi is there.
        CLIENT_ID: String = key("clientId") value(TEXT);
        /// The secret of that client. Absent for a public client.
        CLIENT_SECRET = key("clientSecret") shape(Text);
        /// The file that holds the person's ID token. It is read each time.
        TOKEN_FILE = key("tokenFile") shape(Path);
    }
}

settings! {
    /// Where secrets come from besides variables and files.
    secrets at "secrets"
    keys {
        /// Programs whose output is a secret, by the name that `${command:NAME}` has. They are not run for a configuration
        /// that was only found in the current directory: name it with `--config`.
        COMMANDS = key("commands") shape(TableMap("secrets.commands.NAME")) default("{}");
    }
}

settings! {
    /// A program whose output is a secret, such as a password manager. It is run without a shell and without input, and
    /// has 5 s; at most 64 KiB count, without the last line break.
    secret_command at "secrets.commands.NAME"
    keys {
        /// The program and its arguments.
        RUN: String = key("run") value(TEXTS);
        /// How long its output holds. Then a gateway runs it again, and uses the new secret without a restart; if it fails,
        /// the one before stays.
        TTL: Duration = key("ttl") value(POSITIVE_DURATION) default("5m");
    }
}

settings! {
    /// Where sign-ins to remote servers are kept, sealed.
    vault at "vault"
    keys {
        /// The file. Default: `vault.json` in tsugi's state directory.
        FILE = key("file") shape(Path);
        /// A PostgreSQL database in place of the file, for gateways on several machines: `postgres://…`. It needs `key`.
        /// `sslmode=require` checks the server's certificate.
        URL = key("url") shape(Text);
        /// The key that seals it: 32 bytes in base64; better from a variable or a file. Default: a file beside `file`, made
        /// with the first sign-in.
        KEY = key("key") shape(Text);
        /// The key before `key`. What it sealed can still be opened, and `tsugi vault rekey` seals it with `key`.
        PREVIOUS_KEY = key("previousKey") shape(Text);
    }
}

/// How tsugi signs in to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum UpstreamAuthMode {
    Oauth,
    ClientCredentials,
    Workload,
    Enterprise,
    Header,
}

/// What a provider gets wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ProviderQuirk {
    AssumePkce,
    NoResource,
}

/// The sign-in to one server, checked.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpstreamAuthSettings {
    pub(crate) mode: UpstreamAuthMode,
    pub(crate) scopes: Vec<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) client: Option<UpstreamClientSettings>,
    pub(crate) metadata_url: Option<String>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) provider: Option<UpstreamProviderSettings>,
    pub(crate) quirks: Vec<ProviderQuirk>,
    pub(crate) legacy_discovery: bool,
}

/// A client that was registered by hand.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpstreamClientSettings {
    pub(crate) id: String,
    pub(crate) secret: Option<Secret>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) key_id: Option<String>,
    #[serde(serialize_with = "algorithm_name")]
    pub(crate) algorithm: SigningAlgorithm,
    pub(crate) issuer: Option<String>,
}

/// The identity provider of an organization.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpstreamProviderSettings {
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<Secret>,
    pub(crate) token_file: PathBuf,
}

/// Where sign-ins are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VaultSettings {
    pub(crate) file: Option<PathBuf>,
    /// The address of a database, which may hold a password.
    pub(crate) url: Option<Secret>,
    pub(crate) key: Option<Secret>,
    pub(crate) previous_key: Option<Secret>,
}

impl VaultSettings {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn algorithm_name<S: serde::Serializer>(algorithm: &SigningAlgorithm, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(algorithm.name())
}
