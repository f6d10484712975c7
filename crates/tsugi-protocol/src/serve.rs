//! A small way to write a server of one's own: tools, resources and prompts with typed arguments.
