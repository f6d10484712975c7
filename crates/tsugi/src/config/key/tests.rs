//! The reference page is made from the keys, and the keys are sound.

use std::fmt::Write as _;
use std::path::Path;

use super::*;
use crate::config::env::VARIABLES;
use crate::config::file::NAMES;

const HEAD: &str = "\
# Configuration

<!-- Generated from the keys in `crates/tsugi/src/config/key`. `UPDATE_GOLDEN=1 cargo nextest run -p tsugi` writes it anew. -->

tsugi is configured by one file, in YAML, JSON (comments and trailing commas are fine) or TOML.

```yaml
servers:
  - name: files
    command: npx
    args: [\"-y\", \"@modelcontextprotocol/server-filesystem\", \"${PROJECT_ROOT:-.}\"]
  - name: remote
    url: https://example.com/mcp
    headers: { Authorization: \"Bearer ${API_KEY}\" }
```

## Which file

The first of these that is there:

1. `--command` or `--url`: a server on the spot, and no file.
2. `--config FILE`.
3. The variable `TSUGI_CONFIG`.
4. The variable `MCP_URLS`.
";

const VALUES: &str = "
`config.yaml` counts only if it has a line that begins with `servers:` or `mcpServers:`, since other programs use the name too.
Files of other programs are turned into ours by `tsugi import`.

## How values are written

- A **duration** is `30s`, `1500ms`, `2m`, `1h`, or a bare number of milliseconds.
- A **size** is `4MiB`, `64KB`, or a bare number of bytes.
- A **glob** is `read_*`, `{get,list}_?`, and the like.
- A **path** is meant from the directory of the file.
- A switch is `true` or `false`; `yes`, `no`, `on` and `off` are understood.

In every value, but not in keys, these are replaced:

| written | becomes |
| --- | --- |
| `${NAME}` | the variable; it is an error if it is not set |
| `${NAME:-default}` | the variable, or the default where it is not set or empty |
| `${NAME:?message}` | the variable, or an error with the message |
| `${env:NAME}` | the same as `${NAME}` |
| `${file:path}` | the content of a file, without its last line break |
| `$$` | a dollar sign |

Inside `[ ]` and `{ }` of YAML, a value with `${…}` needs quotes.
A server that is `disabled` may use variables that are not set.

Values of variables, headers and flags whose name sounds secret, such as `API_KEY` or `Authorization`, and contents of files are never shown: not in errors, logs, or the dashboard.
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    let names = NAMES.map(|name| format!("`{name}`")).join(", ");
    writeln!(page, "5. In the current directory: {names}.").unwrap();
    writeln!(page, "6. The same names in the user's own directory, `~/.config/tsugi/`.").unwrap();
    page.push_str(VALUES);
    page.push_str("\n## Variables that tsugi reads\n\n| variable | meaning |\n| --- | --- |\n");
    for variable in VARIABLES {
        writeln!(page, "| `{}` | {} |", variable.name, variable.meaning).unwrap();
    }
    for table in TABLES {
        section(&mut page, table);
    }
    page
}

fn section(page: &mut String, table: &SettingTable) {
    let title = if table.path.is_empty() { "The file".to_owned() } else { format!("`{}`", table.path) };
    writeln!(page, "\n## {title}\n\n{}\n", table.about).unwrap();
    page.push_str("| key | value | default | meaning |\n| --- | --- | --- | --- |\n");
    for key in table.keys {
        let names: Vec<String> =
            std::iter::once(&key.name).chain(key.aliases).map(|name| format!("`{name}`")).collect();
        let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
        writeln!(page, "| {} | {} | {default} | {} |", names.join(", "), key.kind, key.meaning).unwrap();
    }
}

#[test]
fn the_reference_page_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, page()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(page(), written, "UPDATE_GOLDEN=1 writes it anew");
}

#[test]
fn no_word_means_two_keys_of_one_map() {
    for table in TABLES {
        let mut words: Vec<&str> =
            table.keys.iter().flat_map(|key| std::iter::once(&key.name).chain(key.aliases)).copied().collect();
        let count = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), count, "{}", table.path);
    }
}

#[test]
fn the_nearest_key_is_found_whatever_its_spelling() {
    for (word, key) in
        [("timout", "timeout"), ("max_retries", "maxRetries"), ("retrypolicy", "retryPolicy"), ("comand", "command")]
    {
        let table = if key == "maxRetries" { &retry::TABLE } else { &server::TABLE };
        assert_eq!(table.nearest(word), Some(key));
    }
    assert_eq!(server::TABLE.nearest("zzz"), None);
}
