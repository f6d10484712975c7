//! Settings of the outbound guard and of the way out of a sandbox.

use tsugi_outbound::{AllowList, OutboundRules};
use url::Url;

use crate::config::key::settings;
use crate::config::key::value::{EGRESS_ENTRIES, FLAG, OUTBOUND_ENTRIES, PROXY_URL};
use crate::config::resolve::reader::{SettingsReader, SettingsSection};

settings! {
    outbound at "outbound": "Which addresses may be reached that did not come from this file: servers that were added over HTTP, and what authorization servers name."
    => library OutboundRules(reader, section) {
        listed ALLOW allow: String = "allow", OUTBOUND_ENTRIES, "[]", "Networks and host names that may be reached although they are private, such as `10.1.0.0/16` or `*.corp.example`. Metadata services of clouds cannot be allowed.", allowed(reader, section);
        one INSECURE_LOOPBACK insecure_loopback: bool = "insecureLoopback", FLAG, "false", "Allow services on this machine's loopback, also without TLS: for development.";
        maybe PROXY proxy: Url = "proxy", PROXY_URL, "", "An HTTP proxy that makes these connections and decides about names. Without it none is used, whatever the environment says.";
    }
}

settings! {
    egress at "servers[].sandbox.net": "The hosts that a program may reach, through a proxy that is its only way out."
    keys {
        ALLOW: String = "allow", EGRESS_ENTRIES, "[]", "Hosts with or without a port: `api.github.com:443`, `*.example.com`, `10.1.2.3:5432`. Without a port they mean 80 and 443.";
    }
}

fn allowed(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>) -> AllowList {
    let mut list = AllowList::default();
    for entry in reader.list_or_default(section, &outbound::ALLOW) {
        // Every entry has been parsed once, so none is lost here.
        let _ = list.add(&entry);
    }
    list
}
