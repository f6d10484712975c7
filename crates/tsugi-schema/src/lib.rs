//! JSON Schema as data: check values and rewrite schemas for each model provider, saying what was lost.
