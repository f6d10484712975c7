//! Pages made from what a running gateway reports. `UPDATE_GOLDEN=1` rewrites them.

use std::collections::{BTreeMap, BTreeSet};

use tsugi_testkit::golden::Golden;

use super::page::root;
use crate::world::World;

const METRICS: &str = "# Metrics

<!-- Generated from the response of a gateway at `/metrics`. `UPDATE_GOLDEN=1 cargo nextest run -p tsugi docs` rewrites it. -->

`GET /metrics` returns the text format of Prometheus.
It needs an admin key if keys are configured; `gateway.metrics: off` removes it.

| metric | kind | labels | meaning |
| --- | --- | --- | --- |
";

const LABELS: &str = "
- `server` is the name in the configuration, `tool` the server's own name of the tool. The first 2,000 tools are counted by name, the others under `other`.
- `outcome` of a call is `ok`, `tool_error` (the tool returned a result with `isError`), `input_required`, `failed` or `cancelled`.
- `route` is the route as listed in [http.md](http.md), never the requested address, so that callers cannot create new label values.
- A histogram has `_bucket`, `_sum` and `_count`; its bounds are in seconds.
";

/// Every metric of the text with its kind, labels and meaning.
fn rows(text: &str) -> String {
    let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once('{').unwrap_or_else(|| (line.split(' ').next().unwrap_or_default(), ""));
        let set = labels.entry(name.to_owned()).or_default();
        let pairs = rest.rsplit_once('}').map_or("", |(inside, _)| inside).split("\",");
        set.extend(pairs.filter_map(|pair| pair.split_once('=')).map(|(label, _)| format!("`{label}`")));
    }
    let mut rows = String::new();
    let mut meaning = "";
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            meaning = help.split_once(' ').map_or("", |(_, meaning)| meaning);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let shown = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
            let sampled = if kind == "histogram" { format!("{name}_count") } else { shown.clone() };
            let names = labels.get(&sampled).map(|set| set.iter().cloned().collect::<Vec<_>>()).unwrap_or_default();
            rows.push_str(&format!("| `{shown}` | {kind} | {} | {meaning} |\n", names.join(", ")));
        }
    }
    rows
}

#[test]
fn the_page_of_metrics_says_what_a_gateway_says() {
    let world = World::new();
    let serving = world.serve(&[]);
    for tool in ["echo", "none"] {
        serving.ask("POST", &format!("/tools/demo/{tool}"), &[], r#"{"message":"hi"}"#);
    }
    let (_, text) = serving.ask("GET", "/metrics", &[], "");
    Golden::in_folder(root().join("docs/reference")).check("metrics.md", &format!("{METRICS}{}{LABELS}", rows(&text)));
}
