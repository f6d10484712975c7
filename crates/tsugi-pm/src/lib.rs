//! The project-management MCP server: its ideas, its storage, its MCP surface.

pub mod domain;
