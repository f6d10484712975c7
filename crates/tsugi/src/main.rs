//! The command: read configuration, put the parts together, run, report.

#[expect(dead_code, reason = "the commands that use it are written next")]
mod config;
#[expect(dead_code, reason = "the commands that use it are written next")]
mod output;
#[cfg_attr(not(test), expect(dead_code, reason = "the commands that use it are written next"))]
mod report;

fn main() {}
