//! What to do when other machines could reach a gateway that nothing protects: three ways, with lines to paste.

use std::net::SocketAddr;

use crate::failure::CommandFailure;

/// No caller would have to say who it is.
pub(super) fn without_keys(address: SocketAddr) -> CommandFailure {
    let message = format!("refusing to listen on {address} without authentication: other machines can reach it");
    let details = [vec!["first a key for every caller: tsugi key add alice".to_owned(), String::new()], ways(address)];
    CommandFailure::usage(message).with_details(details.concat()).with_hint(INSECURE)
}

/// Keys and results could be read on the way.
pub(super) fn without_tls(address: SocketAddr) -> CommandFailure {
    let message = format!("refusing to listen on {address} without TLS: keys and results could be read on the way");
    CommandFailure::usage(message).with_details(ways(address)).with_hint(INSECURE)
}

const INSECURE: &str = "on a network that you trust, `--insecure` or `gateway.insecure: true` does without; \
                        see docs/guide/tls.md";

/// Each way as lines for the configuration.
fn ways(address: SocketAddr) -> Vec<String> {
    let port = address.port();
    let text = format!(
        "three ways to protect it, as lines for tsugi.yaml:\n\
         \n\
         1. a certificate of your own\n\
         \x20  gateway:\n\
         \x20    listen: {address}\n\
         \x20    publicUrl: https://mcp.example.com\n\
         \x20    tls: {{ cert: /etc/tsugi/cert.pem, key: /etc/tsugi/key.pem }}\n\
         \n\
         2. a reverse proxy on this machine that speaks TLS (Caddy: mcp.example.com {{ reverse_proxy 127.0.0.1:{port} }})\n\
         \x20  gateway:\n\
         \x20    listen: 127.0.0.1:{port}\n\
         \x20    publicUrl: https://mcp.example.com\n\
         \x20    allowedHosts: [mcp.example.com]\n\
         \n\
         3. a reverse proxy on another machine, in a network that only it can reach\n\
         \x20  gateway:\n\
         \x20    listen: {address}\n\
         \x20    publicUrl: https://mcp.example.com\n\
         \x20    trustedProxies: [10.0.0.5]\n"
    );
    text.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_a_configuration_that_can_be_pasted() {
        use crate::config::document::{ConfigDocument, DocumentFormat};
        use crate::config::resolve::resolve;
        let lines = ways("0.0.0.0:7600".parse().unwrap());
        let mut found = 0;
        for way in lines.split(|line| line.is_empty()) {
            let Some(start) = way.iter().position(|line| line.trim() == "gateway:") else { continue };
            let text = way[start..].join("\n");
            let document = ConfigDocument::parse("tsugi.yaml".as_ref(), text.clone(), DocumentFormat::Yaml).unwrap();
            assert!(resolve(&document, &Default::default()).is_ok(), "{text}");
            found += 1;
        }
        assert_eq!(found, 3);
    }
}
