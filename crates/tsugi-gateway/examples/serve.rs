//! Serves one upstream server through the gateway: for conformance runs and measurements.
//!
//! `serve PORT http://host/mcp` or `serve PORT COMMAND ARGS…`; the server is called `ref` and its names are bare.

use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig};
use tsugi_gateway::{Gateway, GatewayConfig, HubConfig};
use tsugi_schema::tool_name::ToolNaming;

fn main() {
    // Before the runtime starts its threads: processes are started through a guardian, which is this program again.
    tsugi_process::guardian_main();
    run();
}

#[tokio::main]
async fn run() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, target @ ..] = arguments.as_slice() else { panic!("usage: serve PORT (URL | COMMAND ARGS…)") };
    let manager = Manager::new(ManagerOptions::default());
    manager.register(ServerConfig::new("ref", read_target(target))).expect("the name is free");
    let config = GatewayConfig {
        listen: vec![format!("127.0.0.1:{port}").parse().expect("a port")],
        ..GatewayConfig::default()
    };
    let shown = HubConfig { naming: ToolNaming::PrefixOnConflict, ..HubConfig::default() };
    let (handle, _) = Gateway::serve_manager(config, manager.clone(), shown).await.expect("the port is free");
    tokio::signal::ctrl_c().await.expect("signals can be heard");
    handle.drain(std::time::Duration::from_secs(5)).await;
    manager.stop().await;
}

fn read_target(target: &[String]) -> ConnectTarget {
    match target {
        [url] if url.starts_with("http") || url.starts_with("ws") => {
            ConnectTarget::url(url.parse().expect("an address"), Default::default()).expect("a known scheme")
        }
        [program, arguments @ ..] => ConnectTarget::stdio(tsugi_process::JobCommand::new(program).args(arguments)),
        [] => panic!("name an address or a command"),
    }
}
