//! Well-known remote servers by their hosts, and which sign-in each needs.
//!
//! From the public list <https://github.com/jaw9c/awesome-remote-mcp-servers>, 2026. What a server itself says when it is
//! asked counts; this is for commands that use no network.

use url::Url;

/// How one signs in to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KnownSignIn {
    /// `tsugi login`, and nothing else.
    Login,
    /// `tsugi login` as a client that is registered with the provider first, or a key.
    RegisteredClient,
}

const LOGIN: [&str; 24] = [
    "mcp.asana.com",
    "mcp.attio.com",
    "mcp.buildkite.com",
    "mcp.canva.com",
    "bindings.mcp.cloudflare.com",
    "observability.mcp.cloudflare.com",
    "mcp.intercom.com",
    "mcp.jam.dev",
    "mcp.linear.app",
    "mcp.monday.com",
    "mcp.neon.tech",
    "netlify-mcp.netlify.app",
    "mcp.notion.com",
    "mcp.paypal.com",
    "mcp.port.io",
    "mcp.prisma.io",
    "mcp.sentry.dev",
    "mcp.squareup.com",
    "mcp.stackoverflow.com",
    "mcp.stripe.com",
    "mcp.supabase.com",
    "mcp.vercel.com",
    "mcp.webflow.com",
    "mcp.wix.com",
];
const REGISTERED: [&str; 5] =
    ["api.githubcopilot.com", "mcp.atlassian.com", "mcp.box.com", "mcp.close.com", "api.dashboard.plaid.com"];

impl KnownSignIn {
    /// The sign-in that the server at this address needs, where it is known.
    pub(crate) fn of(url: &Url) -> Option<Self> {
        let host = url.host_str()?;
        // Whole names over TLS: another host that only ends or begins like one of these is another server.
        match url.scheme() {
            "https" if LOGIN.contains(&host) => Some(Self::Login),
            "https" if REGISTERED.contains(&host) => Some(Self::RegisteredClient),
            _ => None,
        }
    }

    /// What it needs, as a sentence without a subject's name.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Login => "it needs a sign-in in the browser (OAuth)",
            Self::RegisteredClient => {
                "it needs a key in `headers`, or a sign-in (OAuth) as a client that you register with its provider"
            }
        }
    }

    /// What to do.
    pub(crate) fn advice(self, name: &str) -> String {
        match self {
            Self::Login => format!("run `tsugi login {name}`"),
            Self::RegisteredClient => {
                format!("set `headers` or `auth.client.id` in its entry; with the latter, run `tsugi login {name}`")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_hosts_over_tls_are_known() {
        let of = |url: &str| KnownSignIn::of(&url.parse().unwrap());
        assert_eq!(of("https://mcp.linear.app/mcp"), Some(KnownSignIn::Login));
        assert_eq!(of("https://MCP.LINEAR.APP/sse"), Some(KnownSignIn::Login));
        assert_eq!(of("https://api.githubcopilot.com/mcp/"), Some(KnownSignIn::RegisteredClient));
        for other in [
            "http://mcp.linear.app/mcp",
            "https://mcp.linear.app.evil.example/mcp",
            "https://xmcp.linear.app/mcp",
            "https://linear.app/mcp",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
