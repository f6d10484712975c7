//! Byte streams cut into messages: lines, `Content-Length` frames, server-sent events; all bounded.
