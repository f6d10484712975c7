//! The project-management MCP server: its ideas, its storage, its MCP surface.
//!
//! Read in this order: [`domain`] says what projects, tasks, claims, sessions and handoffs are and which moves are
//! legal; [`action`] is one use-case per tool, each one transaction; [`store`] keeps it all in SQLite or PostgreSQL;
//! [`mcp`] offers the actions as tools, resources and prompts.

pub mod action;
pub mod domain;
pub mod mcp;
pub mod store;
