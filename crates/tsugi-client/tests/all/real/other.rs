//! The other servers of the official collection: files, memory, time, git and SQLite.

use std::path::Path;

use serde_json::{Value, json};
use tsugi_protocol::mcp::Era;

use super::{Extra, Real, node, python};

#[tokio::test]
async fn the_file_system_server_reads_and_writes_its_folder_and_nothing_else() {
    let Some(command) = node("server-filesystem") else { return };
    let extra = |folder: &Path| Extra { arguments: vec![folder.display().to_string()], ..Extra::default() };
    Real::each(command, extra, async |real| {
        assert_eq!((real.era(), real.tools()), (Era::Legacy, 14));
        let path = real.folder.path().join("note.txt");
        real.say("write_file", json!({"path": path, "content": "kept"})).await;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
        assert_eq!(real.say("read_text_file", json!({"path": path})).await, "kept");
        let refused = real.say("read_text_file", json!({"path": "/etc/hostname"})).await;
        assert!(refused.contains("denied"), "{refused}");
    })
    .await;
}

#[tokio::test]
async fn the_memory_server_remembers() {
    let Some(command) = node("server-memory") else { return };
    let extra = |folder: &Path| {
        let file = folder.join("memory.jsonl").display().to_string();
        Extra { variables: vec![("MEMORY_FILE_PATH", file)], ..Extra::default() }
    };
    Real::each(command, extra, async |real| {
        assert_eq!((real.era(), real.tools()), (Era::Legacy, 9));
        let entity = json!({"name": "tsugi", "entityType": "gateway", "observations": ["joins"]});
        real.say("create_entities", json!({"entities": [entity]})).await;
        let graph: Value = serde_json::from_str(&real.say("read_graph", json!({})).await).unwrap();
        assert_eq!(graph["entities"][0]["observations"], json!(["joins"]));
        assert!(std::fs::read_to_string(real.folder.path().join("memory.jsonl")).unwrap().contains("tsugi"));
    })
    .await;
}

#[tokio::test]
async fn the_time_server_tells_the_time_in_the_modern_era() {
    let Some(command) = python("TSUGI_TEST_PY", "mcp-server-time") else { return };
    Real::each(
        command,
        |_| Extra::default(),
        async |real| {
            assert_eq!((real.era(), real.tools()), (Era::Modern, 2));
            let times = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
            let told = real.say("convert_time", times).await;
            assert!(told.contains("21:00"), "{told}");
            let told = real.say("get_current_time", json!({"timezone": "UTC"})).await;
            assert!(told.contains("UTC"), "{told}");
        },
    )
    .await;
}

#[tokio::test]
async fn the_git_server_sees_a_repository_in_the_modern_era() {
    let Some(command) = python("TSUGI_TEST_PY", "mcp-server-git") else { return };
    Real::each(
        command,
        |_| Extra::default(),
        async |real| {
            assert_eq!((real.era(), real.tools()), (Era::Modern, 12));
            let folder = real.folder.path();
            repository(folder);
            std::fs::write(folder.join("new.txt"), "new").unwrap();
            let told = real.say("git_status", json!({"repo_path": folder})).await;
            assert!(told.contains("new.txt"), "{told}");
            real.say("git_add", json!({"repo_path": folder, "files": ["new.txt"]})).await;
            let told = real.say("git_diff_staged", json!({"repo_path": folder})).await;
            assert!(told.contains("+new"), "{told}");
        },
    )
    .await;
}

#[allow(clippy::disallowed_methods, reason = "it ends by itself and is waited for")]
fn repository(folder: &Path) {
    let made = std::process::Command::new("git").args(["init", "--quiet"]).arg(folder).status().unwrap();
    assert!(made.success());
}

/// It answers `server/discover` with −32602, which must not be taken for a modern server's answer.
#[tokio::test]
async fn the_sqlite_server_keeps_rows_in_the_legacy_era() {
    let Some(command) = python("TSUGI_TEST_PY1", "mcp-server-sqlite") else { return };
    let extra = |folder: &Path| Extra {
        arguments: vec!["--db-path".into(), folder.join("rows.db").display().to_string()],
        ..Extra::default()
    };
    Real::each(command, extra, async |real| {
        assert_eq!((real.era(), real.tools()), (Era::Legacy, 6));
        real.say("create_table", json!({"query": "CREATE TABLE pots (name TEXT)"})).await;
        real.say("write_query", json!({"query": "INSERT INTO pots VALUES ('kintsugi')"})).await;
        let rows = real.say("read_query", json!({"query": "SELECT name FROM pots"})).await;
        assert!(rows.contains("kintsugi"), "{rows}");
    })
    .await;
}
