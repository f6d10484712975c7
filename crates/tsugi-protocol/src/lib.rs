//! What MCP messages are: parse, name and translate them between eras, without a socket or a clock.
