//! The command: read configuration, put the parts together, run, report.

fn main() {}
