//! A child with a list of hosts reaches those and no others, whatever it tries. The listening sockets of the test judge.

use std::{
    net::{IpAddr, UdpSocket},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tsugi_outbound::{AllowList, EgressList, NameLookup, OutboundGuard, OutboundRules, egress::EgressRefusal};
use tsugi_process::{
    EgressAccess, Enforcement, Isolation, JobOptions, NetworkAccess, ProcessError, SandboxPolicy, SandboxRules,
    SupervisedJob,
};

use crate::{sandbox::Scene, world::quick};

/// A host on this machine's loopback that counts its connections and answers each.
struct CountingHost {
    port: u16,
    count: Arc<AtomicUsize>,
}

impl CountingHost {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, count) = (listener.local_addr().unwrap().port(), Arc::<AtomicUsize>::default());
        let counted = count.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let _ = stream.read(&mut [0; 4096]).await;
                    let _ = stream
                        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\nconnection: close\r\n\r\nreached")
                        .await;
                });
            }
        });
        CountingHost { port, count }
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

/// A scene whose names all lead to loopback, which the operator allows to `good.test` alone.
struct EgressScene {
    scene: Scene,
    policy: SandboxPolicy,
    options: JobOptions,
    refusals: Arc<Mutex<Vec<EgressRefusal>>>,
}

impl EgressScene {
    fn new(list: &[String]) -> Self {
        let list = EgressList::parse(list.iter().map(String::as_str)).unwrap();
        let rules = SandboxRules { net: NetworkAccess::Allow(list), ..SandboxRules::default() };
        let allow = AllowList::parse(["good.test"]).unwrap();
        let lookup = NameLookup::from_fn(|_| std::future::ready(Ok(vec![IpAddr::from([127, 0, 0, 1])])));
        let guard = OutboundGuard::new(OutboundRules { allow, ..OutboundRules::default() }).with_lookup(lookup);
        let refusals = Arc::<Mutex<Vec<EgressRefusal>>>::default();
        let seen = refusals.clone();
        let observer = Arc::new(move |refusal: &EgressRefusal| seen.lock().unwrap().push(refusal.clone()));
        let egress = EgressAccess { server: "files".into(), guard, observer: Some(observer) };
        let options = JobOptions { egress: Some(egress), ..quick() };
        EgressScene { scene: Scene::new(), policy: SandboxPolicy::Rules(rules), options, refusals }
    }

    async fn attack(&self, attack: &str, target: &str) -> String {
        let command = self.scene.command(&self.policy, attack, target);
        let (job, mut pipes) = SupervisedJob::spawn(command, self.options.clone()).await.unwrap();
        for (part, enforcement) in job.sandbox_report().parts() {
            assert!(!matches!(enforcement, Enforcement::NotEnforced(_)), "{part}: {enforcement}");
        }
        let mut said = String::new();
        pipes.stdout.read_to_string(&mut said).await.unwrap();
        job.gone().await;
        said
    }
}

#[tokio::test]
async fn a_child_reaches_listed_hosts_through_its_proxy_and_no_others_in_any_way() {
    let (good, sink) = (CountingHost::start().await, CountingHost::start().await);
    let (port, other) = (good.port, sink.port);
    let scene = EgressScene::new(&[format!("good.test:{port}"), format!("rebinding.test:{other}")]);
    // The good case: a tunnel and a plain request.
    let said = scene.attack("proxy", &format!("CONNECT good.test:{port} HTTP/1.1")).await;
    assert!(said.contains("reached"), "{said}");
    let said = scene.attack("proxy", &format!("GET http://good.test:{port}/ HTTP/1.1\r\nHost: good.test")).await;
    assert!(said.contains("reached"), "{said}");
    assert_eq!(good.count(), 2);
    // Another host, another port, the trick with a suffix, an address, and a listed name that leads to our network.
    let refused = [
        format!("other.test:{other}"),
        format!("good.test:{other}"),
        format!("good.test.evil.test:{other}"),
        format!("evilgood.test:{other}"),
        format!("127.0.0.1:{other}"),
        format!("[::ffff:127.0.0.1]:{other}"),
        format!("localhost:{other}"),
        format!("rebinding.test:{other}"),
        "169.254.169.254:80".to_owned(),
    ];
    for authority in &refused {
        let said = scene.attack("proxy", &format!("CONNECT {authority} HTTP/1.1")).await;
        assert!(said.contains("HTTP/1.1 403"), "{authority}: {said}");
    }
    assert_eq!(scene.refusals.lock().unwrap().len(), refused.len(), "each refusal is an event");
    // A child that does not heed the proxy.
    let said = scene.attack("tcp", &format!("127.0.0.1:{other}")).await;
    assert!(said.contains("refused"), "{said}");
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    scene.attack("udp", &udp.local_addr().unwrap().to_string()).await;
    assert!(udp.recv(&mut [0; 16]).is_err(), "no datagram leaves");
    for server in ["192.0.2.53:53", "198.51.100.1:443"] {
        assert!(scene.attack("udp", server).await.contains("refused"), "there is no route for a question to {server}");
        assert!(scene.attack("tcp", server).await.contains("refused"), "there is no route to {server}");
    }
    assert_eq!((good.count(), sink.count()), (2, 0));
    assert_eq!(scene.attack("loopback", "-").await, "done\n", "its own processes can talk");
}

#[tokio::test]
async fn without_a_list_the_same_child_reaches_everything() {
    let sink = CountingHost::start().await;
    let scene = Scene::new();
    let command = scene.command(&SandboxPolicy::Default, "tcp", &format!("127.0.0.1:{}", sink.port));
    let (job, mut pipes) = SupervisedJob::spawn(command, quick()).await.unwrap();
    let mut said = String::new();
    pipes.stdout.read_to_string(&mut said).await.unwrap();
    job.gone().await;
    assert_eq!(said, "done\n");
    assert_eq!(sink.count(), 1);
}

#[tokio::test]
async fn a_list_is_refused_where_there_is_no_network_of_its_own_to_enforce_it() {
    let scene = Scene::new();
    let list = NetworkAccess::Allow(EgressList::parse(["good.test"]).unwrap());
    let rules = SandboxRules { net: list, isolation: Isolation::Standard, ..SandboxRules::default() };
    let spawn = async |rules: SandboxRules| {
        let command = scene.command(&SandboxPolicy::Rules(rules), "loopback", "-");
        SupervisedJob::spawn(command, quick()).await
    };
    let error = spawn(rules.clone()).await.map(drop).unwrap_err();
    assert!(matches!(&error, ProcessError::Sandbox { what } if what.contains("list of hosts")), "{error}");
    let (job, _pipes) = spawn(SandboxRules { required: false, ..rules }).await.unwrap();
    assert!(matches!(job.sandbox_report().tcp, Enforcement::NotEnforced(_)), "{}", job.sandbox_report());
    job.stop().await;
}
