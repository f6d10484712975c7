//! A certificate from a real ACME authority (`pebble`, which refuses some nonces on purpose), ordered and renewed by the
//! command, and judged by another tsugi that trusts the authority alone.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustix::process::Signal;
use serde_json::json;
use tsugi_outbound::{AllowList, OutboundGuard, OutboundRules};
use tsugi_testkit::test_authority::TestAuthority;
use tsugi_tls::certificate::{CertificateFacts, first_in_pem};
use tsugi_tls::upstream::{UpstreamTls, UpstreamTlsSettings};
use tsugi_transport::guarded_fetch::{FetchLimits, GuardedFetch};

use crate::world::{Serving, World, until};

const DOMAIN: &str = "mcp.test";

/// Ends with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An authority, and a name server for which every name is this machine.
struct AcmeWorld {
    world: World,
    directory: String,
    /// Where the gateway must listen for the authority to find it.
    tls_port: u16,
    http_port: u16,
    _programs: [Program; 2],
}

fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    let listeners: [TcpListener; COUNT] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

impl AcmeWorld {
    /// `None` where `pebble` is not installed.
    #[expect(clippy::disallowed_methods, reason = "programs of another project, which `Program` ends")]
    fn start(validity: Duration) -> Option<Self> {
        if !is_installed("pebble") || !is_installed("pebble-challtestsrv") {
            println!("not run: pebble is not installed");
            return None;
        }
        let world = World::new();
        let own = TestAuthority::new("of the directory");
        world.write("directory-ca.pem", &own.pem);
        let (certificate, key) = own.leaf(&[], &["localhost"]).write(world.path(), "pebble");
        let [directory, management, dns, dns_management, tls_port, http_port] = free_ports();
        let config = json!({"pebble": {
            "listenAddress": format!("127.0.0.1:{directory}"),
            "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": certificate, "privateKey": key, "httpPort": http_port, "tlsPort": tls_port,
            "ocspResponderURL": "", "externalAccountBindingRequired": false,
            "certificateValidityPeriod": validity.as_secs(),
        }});
        let config = world.write("pebble.json", &config.to_string());
        let mut names = Command::new("pebble-challtestsrv");
        names.args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-http01", "", "-https01", "", "-tlsalpn01", ""]);
        names.args(["-dns01", &format!("127.0.0.1:{dns}"), "-management", &format!("127.0.0.1:{dns_management}")]);
        let mut pebble = Command::new("pebble");
        pebble.arg("-config").arg(config).args(["-dnsserver", &format!("127.0.0.1:{dns}")]);
        pebble.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_WFE_NONCEREJECT", "5");
        let start = |command: &mut Command, log: &str| {
            let log = std::fs::File::create(world.path().join(log)).unwrap();
            let command = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
            Program(command.spawn().unwrap())
        };
        let programs = [start(&mut names, "names.log"), start(&mut pebble, "pebble.log")];
        for port in [directory, management, dns_management] {
            until(|| TcpStream::connect(("127.0.0.1", port)).is_ok(), || format!("nothing listens at {port}"));
        }
        let root = fetch(&format!("https://localhost:{management}/roots/0"), &world.path().join("directory-ca.pem"));
        world.write("issuer-ca.pem", std::str::from_utf8(&root).unwrap());
        let directory = format!("https://localhost:{directory}/dir");
        Some(Self { world, directory, tls_port, http_port, _programs: programs })
    }

    fn serve(&self, more: &str) -> Serving {
        let text = format!(
            "servers: [{{name: demo, builtin: demo}}]\n\
             gateway:\n  listen: '127.0.0.1:{}'\n  allowedHosts: [{DOMAIN}]\n  tls:\n    {more}\n    acme: {{domains: \
             [{DOMAIN}], directory: '{}', acceptTerms: true, ca: directory-ca.pem{}}}\n",
            self.tls_port,
            self.directory,
            if more.contains("redirect") { ", challenge: http-01" } else { "" },
        );
        let config = self.world.write("acme.yaml", &text);
        self.world.serve_as_written(&["--config", config.to_str().unwrap()])
    }

    /// Whether a tsugi that trusts the authority alone reaches the gateway by its name.
    fn is_trusted(&self) -> bool {
        let url = format!("https://127.0.0.1:{}/mcp", self.tls_port);
        let tls = format!("{{ca: issuer-ca.pem, only: true, serverName: {DOMAIN}}}");
        let config = self.world.write("client.yaml", &format!("servers: [{{name: up, url: '{url}', tls: {tls}}}]\n"));
        let args = ["call", "--config", config.to_str().unwrap(), "up/demo__echo", "message=hello"];
        self.world.run(&args).status.success()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.world.path().join("acme").join(name)
    }

    fn facts(&self) -> CertificateFacts {
        CertificateFacts::read(&first_in_pem(&std::fs::read(self.file("certificate.pem")).unwrap()).unwrap()).unwrap()
    }

    fn wait_until_issued(&self, serving: &Serving) {
        let log = || std::fs::read_to_string(self.world.path().join("pebble.log")).unwrap_or_default();
        until(|| self.file("issued.json").exists(), || format!("{}\n{}", serving.talk(), log()));
        until(|| self.is_trusted(), || serving.talk());
    }
}

/// A document of the authority's own pages.
fn fetch(url: &str, ca: &Path) -> Bytes {
    let settings = UpstreamTlsSettings { ca: vec![ca.to_owned()], only: true, ..Default::default() };
    let tls = UpstreamTls::new(settings).config(SystemTime::now()).unwrap().config;
    let rules = OutboundRules { allow: AllowList::parse(["localhost"]).unwrap(), ..Default::default() };
    let fetch = GuardedFetch::with_tls(OutboundGuard::new(rules), Arc::clone(&tls));
    let request = http::Request::get(url).body(Bytes::new()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(fetch.send_bytes(request, FetchLimits::METADATA)).unwrap().into_body()
}

#[test]
fn a_certificate_is_ordered_by_tls_kept_by_its_owner_and_not_ordered_again() {
    let Some(acme) = AcmeWorld::start(Duration::from_secs(3600)) else { return };
    let mut serving = acme.serve("");
    acme.wait_until_issued(&serving);
    let (issued, before) = (acme.facts(), std::fs::read(acme.file("certificate.pem")).unwrap());
    assert_eq!(issued.dns_names, [DOMAIN]);
    for name in ["certificate.pem", "account.json"] {
        let mode = std::fs::metadata(acme.file(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    serving.signal(Signal::TERM);
    assert_eq!(serving.exit_code(), Some(0), "{}", serving.talk());
    let serving = acme.serve("");
    until(|| acme.is_trusted(), || serving.talk());
    assert_eq!(std::fs::read(acme.file("certificate.pem")).unwrap(), before, "the one that there is serves on");
}

#[test]
fn a_certificate_is_ordered_by_http_and_renewed_before_it_ends() {
    let Some(acme) = AcmeWorld::start(Duration::from_secs(20)) else { return };
    let serving = acme.serve(&format!("redirect: '127.0.0.1:{}'", acme.http_port));
    until(|| acme.file("issued.json").exists(), || serving.talk());
    let first = acme.facts();
    until(|| acme.facts().key != first.key && acme.is_trusted(), || serving.talk());
    assert!(acme.facts().not_before < first.not_after, "the first one had not ended");
}

#[test]
fn no_certificate_is_ordered_for_a_name_that_leads_elsewhere() {
    let Some(acme) = AcmeWorld::start(Duration::from_secs(3600)) else { return };
    // The authority asks at the port of the name, and another program listens there.
    let [elsewhere] = free_ports();
    let config = format!(
        "servers: [{{name: demo, builtin: demo}}]\ngateway: {{listen: '127.0.0.1:{elsewhere}', tls: {{acme: {{domains: \
         [{DOMAIN}], directory: '{}', acceptTerms: true, ca: directory-ca.pem}}}}}}\n",
        acme.directory,
    );
    let config = acme.world.write("elsewhere.yaml", &config);
    let serving = acme.world.serve_as_written(&["--config", config.to_str().unwrap()]);
    serving.wait_for("no certificate could be ordered");
    assert!(!acme.file("issued.json").exists());
    assert!(!acme.is_trusted());
}
