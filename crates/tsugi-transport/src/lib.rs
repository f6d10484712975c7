//! Carry messages to one upstream server over one kind of wire.
