-- Measurements of a machine, and of a training step on it. They belong to no run.
CREATE TABLE benches (
  id         TEXT PRIMARY KEY,
  kind       TEXT NOT NULL CHECK (kind IN ('machine', 'train')),
  started    INTEGER NOT NULL,
  provenance TEXT NOT NULL -- JSON object of strings
) STRICT;

CREATE TABLE measurements (
  bench  TEXT NOT NULL REFERENCES benches (id),
  seq    INTEGER NOT NULL, -- place in the bench, from 0
  family TEXT NOT NULL, -- Measurement.Group; "group" is a word of SQL
  name   TEXT NOT NULL,
  value  REAL NOT NULL,
  unit   TEXT NOT NULL,
  low    REAL NOT NULL,
  high   REAL NOT NULL,
  n      INTEGER NOT NULL,
  detail TEXT NOT NULL, -- JSON object of strings
  PRIMARY KEY (bench, seq)
) STRICT, WITHOUT ROWID;
