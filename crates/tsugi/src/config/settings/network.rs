//! Settings of the outbound guard and of the way out of a sandbox.

use tsugi_outbound::{AllowList, OutboundRules};
use url::Url;

use crate::config::key::settings;
use crate::config::key::value::{EGRESS_ENTRIES, FLAG, OUTBOUND_ENTRIES, PROXY_URL};
use crate::config::resolve::reader::{SettingsReader, SettingsSection};

settings! {
    /// Which addresses may be reached that did not come from this file: servers that were added over HTTP, and what
    /// authorization servers name.
    outbound at "outbound"
    => library OutboundRules(reader, section) {
        /// Networks and host names that may be reached although they are private, such as `10.1.0.0/16` or
        /// `*.corp.example`. Metadata services of clouds cannot be allowed.
        many allow: String = key(ALLOW: "allow") value(OUTBOUND_ENTRIES) default("[]") read(allowed(reader, section));
        /// Allow services on this machine's loopback, also without TLS: for development.
        one insecure_loopback: bool = key(INSECURE_LOOPBACK: "insecureLoopback") value(FLAG) default("false");
        /// An HTTP proxy that makes these connections and decides about names. Without it none is used, whatever the
        /// environment says.
        maybe proxy: Url = key(PROXY: "proxy") value(PROXY_URL);
    }
}

settings! {
    /// The hosts that a program may reach, through a proxy that is its only way out.
    egress at "servers[].sandbox.net"
    keys {
        /// Hosts with or without a port: `api.github.com:443`, `*.example.com`, `10.1.2.3:5432`. Without a port they
        /// mean 80 and 443.
        ALLOW: String = key("allow") value(EGRESS_ENTRIES) default("[]");
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
