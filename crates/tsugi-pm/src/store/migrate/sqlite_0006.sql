-- Where the time of this database stood when the machine was up for zero milliseconds, once for every boot; and the
-- processes whose clock was found to be ahead of the time that has passed since then.
CREATE TABLE machine_clock(boot TEXT PRIMARY KEY, base_ms INTEGER NOT NULL, adjusted_ms INTEGER NOT NULL) STRICT;
CREATE TABLE clock_lead(
  host TEXT NOT NULL, pid INTEGER NOT NULL, ahead_ms INTEGER NOT NULL, seen_at INTEGER NOT NULL,
  PRIMARY KEY(host, pid)) STRICT;
