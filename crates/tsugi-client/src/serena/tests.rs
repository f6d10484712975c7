//! Against the real `serena-agent`, offline; and against servers that only look like one.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tsugi_process::JobCommand;
use tsugi_protocol::answer::FaultCode;
use tsugi_protocol::serve::{self, NoArguments, TextOutput, ToolBuilder};

use super::*;
use crate::{ConnectTarget, Manager, ManagerOptions, ServerConfig};

const SHOP: &str = r#"class Basket:
    """What somebody wants to buy."""

    def __init__(self):
        self.items = []

    def total(self):
        return sum(price for _, price in self.items)


def checkout(basket: Basket):
    return basket.total() * 2
"#;

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(".serena")).unwrap();
    let settings = "project_name: \"shop\"\nlanguage_servers: [python_jedi]\nencoding: \"utf-8\"\n";
    std::fs::write(folder.path().join(".serena/project.yml"), settings).unwrap();
    std::fs::write(folder.path().join("shop.py"), SHOP).unwrap();
    folder
}

/// Serena's own programs, such as the language server, are found beside it.
fn command(program: &Path, project: &Path, home: &Path, interface: &str) -> JobCommand {
    let beside = program.parent().unwrap_or(Path::new(".")).display().to_string();
    let path = format!("{beside}:{}", std::env::var("PATH").unwrap_or_default());
    JobCommand::new(program)
        .args(["start-mcp-server", "--project"])
        .arg(project)
        .args(["--agent-interface", interface, "--enable-web-dashboard", "false", "--open-web-dashboard", "false"])
        .env("SERENA_HOME", home)
        .env("PATH", path)
}

/// The real one; `TSUGI_TEST_SERENA` names its program.
fn real() -> Option<std::path::PathBuf> {
    let program = std::env::var_os("TSUGI_TEST_SERENA").filter(|name| !name.is_empty()).map(std::path::PathBuf::from);
    if program.is_none() {
        eprintln!("skipped: TSUGI_TEST_SERENA does not name a serena program");
    }
    program
}

async fn started(
    program: &Path,
    project: &Path,
    interface: &str,
) -> (Manager, tempfile::TempDir, Result<Serena, Fault>) {
    let home = tempfile::tempdir().unwrap();
    let slow = Duration::from_secs(120);
    let manager = Manager::new(ManagerOptions {
        timeout: slow,
        handshake_timeout: slow,
        probe_timeout: slow,
        ..ManagerOptions::default()
    });
    let target = ConnectTarget::stdio(command(program, project, home.path(), interface));
    manager.register(ServerConfig::new("serena", target)).unwrap();
    let serena = manager.serena().await.expect("no Serena was found");
    (manager, home, serena)
}

#[tokio::test]
async fn the_real_serena_finds_changes_and_remembers() {
    let Some(program) = real() else { return };
    let project = project();
    let (manager, _home, serena) = started(&program, project.path(), "tools").await;
    let serena = serena.unwrap();

    let wanted = FindSymbol { kinds: vec![SymbolKind::Class], include_body: true, ..FindSymbol::named("Basket") };
    let found = serena.find_symbol(wanted).await.unwrap();
    assert_eq!((found.len(), found[0].path.as_str(), found[0].kind.as_str()), (1, "shop.py", "Class"));
    assert_eq!(found[0].lines.unwrap().first, 0);
    assert!(found[0].body.as_ref().unwrap().contains("def total"));
    assert!(serena.find_symbol(FindSymbol::named("Nothing")).await.unwrap().is_empty());

    let overview = serena.symbols_overview("shop.py", 1).await.unwrap();
    assert_eq!(overview["Function"], [json!("checkout")]);
    let references = serena.find_referencing_symbols("Basket/total", "shop.py").await.unwrap();
    assert_eq!(references[0].name, "checkout");
    assert!(references[0].around.contains("basket.total()"));

    serena
        .insert_after_symbol("Basket/total", "shop.py", "\n    def count(self):\n        return len(self.items)\n")
        .await
        .unwrap();
    serena.insert_before_symbol("checkout", "shop.py", "LIMIT = 3\n\n\n").await.unwrap();
    serena
        .replace_symbol_body("checkout", "shop.py", "def checkout(basket: Basket):\n    return basket.count() * 2")
        .await
        .unwrap();
    assert_eq!(serena.replace_regex("shop.py", r"\* 2", "* LIMIT").await.unwrap(), 1);
    let text = std::fs::read_to_string(project.path().join("shop.py")).unwrap();
    for part in ["def count(self):", "LIMIT = 3\n", "return basket.count() * LIMIT"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(serena.read_file("shop.py").await.unwrap().contains("LIMIT = 3"));

    let hits = serena.search_for_pattern("LIMIT", None).await.unwrap();
    assert_eq!((hits.len(), hits[0].path.as_str()), (2, "shop.py"));
    assert_eq!(serena.find_file("*.py", ".").await.unwrap(), ["shop.py"]);
    assert_eq!(serena.list_dir(".", false).await.unwrap().files, ["shop.py"]);

    serena.write_memory("plan", "sell more").await.unwrap();
    assert_eq!(serena.read_memory("plan").await.unwrap(), "sell more");
    assert_eq!(serena.list_memories().await.unwrap(), ["plan"]);
    serena.delete_memory("plan").await.unwrap();

    let fault = serena.think_about_whether_you_are_done().await.unwrap_err();
    assert!(fault.message.contains("unsupported by this Serena"), "{}", fault.message);
    let fault = serena.symbols_overview("missing.py", 0).await.unwrap_err();
    assert_eq!(fault.code, FaultCode::ExecutionFailed);
    manager.stop().await;
}

#[tokio::test]
async fn the_repl_of_the_real_serena_is_recognised_with_a_hint() {
    let Some(program) = real() else { return };
    let project = project();
    let (manager, _home, serena) = started(&program, project.path(), "repl").await;
    let fault = serena.err().expect("the REPL was taken for the tools");
    assert_eq!(fault.hint.as_deref(), Some("start it with `--agent-interface tools`"));
    manager.stop().await;
}

async fn over(tools: &[&str]) -> Result<Serena, Fault> {
    let builder = tools.iter().fold(serve::InProcessServer::builder("fake", "1"), |builder, name| {
        let tool = ToolBuilder::new(*name, "").handler(|_: NoArguments, _| async { Ok(TextOutput("[]")) });
        builder.tool(tool)
    });
    let manager = Manager::new(ManagerOptions::default());
    let server = manager.register(ServerConfig::new("fake", ConnectTarget::InProcess(builder.build()))).unwrap();
    Serena::over(server).await
}

#[tokio::test]
async fn only_a_serena_with_tools_is_taken_for_one() {
    assert!(over(&["find_symbol", "get_symbols_overview"]).await.is_ok());
    let repl = over(&["serena_repl", "activate_project", "initial_instructions"]).await.err().unwrap();
    assert!(repl.hint.unwrap().contains("--agent-interface tools"));
    assert_eq!(over(&["echo"]).await.err().unwrap().code, FaultCode::ConfigInvalid);
}

#[tokio::test]
async fn what_this_serena_lacks_is_said_to_be_unsupported() {
    let serena = over(&["find_symbol", "get_symbols_overview"]).await.unwrap();
    for fault in
        [serena.think_about_collected_information().await.unwrap_err(), serena.read_memory("x").await.unwrap_err()]
    {
        assert_eq!(fault.code, FaultCode::ToolNotFound);
        assert!(fault.message.ends_with("is unsupported by this Serena"), "{}", fault.message);
    }
}
