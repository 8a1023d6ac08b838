-- Times are nanoseconds since 1970 UTC, elapsed times nanoseconds since the attempt
-- began. ANY holds a float: a REAL if finite, else the text NaN, +Inf or -Inf (SQLite
-- would turn a NaN into NULL). seq numbers what one attempt writes, so that a write
-- repeated after an error of unknown outcome is recognised.

CREATE TABLE runs (
  id        TEXT PRIMARY KEY,
  name      TEXT NOT NULL,
  notes     TEXT, -- NULL: none were given
  spec      TEXT NOT NULL,
  spec_hash TEXT NOT NULL,
  seed      INTEGER NOT NULL,
  created   INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_name ON runs (name);

CREATE TABLE tags (
  run TEXT NOT NULL REFERENCES runs (id),
  tag TEXT NOT NULL,
  PRIMARY KEY (run, tag)
) STRICT, WITHOUT ROWID;

CREATE TABLE provenance (
  run   TEXT NOT NULL REFERENCES runs (id),
  key   TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
  id            INTEGER PRIMARY KEY,
  run           TEXT NOT NULL REFERENCES runs (id),
  number        INTEGER NOT NULL,
  host          TEXT NOT NULL,
  boot_id       TEXT NOT NULL,
  pid           INTEGER NOT NULL,
  process_start TEXT NOT NULL, -- as the system tells it; with pid and boot_id it names a process for good
  core          INTEGER NOT NULL,
  kernels       TEXT NOT NULL,
  command       TEXT NOT NULL,
  from_step     INTEGER NOT NULL,
  state         TEXT NOT NULL CHECK (state IN ('running', 'finished', 'interrupted', 'diverged', 'failed')),
  message       TEXT NOT NULL,
  started       INTEGER NOT NULL,
  heartbeat     INTEGER NOT NULL,
  ended         INTEGER, -- NULL: it has not
  step          INTEGER NOT NULL,
  tokens        INTEGER NOT NULL,
  UNIQUE (run, number)
) STRICT;

CREATE TABLE metrics (
  run    TEXT NOT NULL REFERENCES runs (id),
  name   TEXT NOT NULL,
  unit   TEXT NOT NULL,
  better TEXT NOT NULL CHECK (better IN ('', 'lower', 'higher')),
  PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE points (
  attempt INTEGER NOT NULL REFERENCES attempts (id),
  name    TEXT NOT NULL,
  seq     INTEGER NOT NULL,
  step    INTEGER NOT NULL,
  tokens  INTEGER NOT NULL,
  elapsed INTEGER NOT NULL,
  time    INTEGER NOT NULL,
  value   ANY NOT NULL,
  PRIMARY KEY (attempt, name, step, seq) -- step, so that the last point of a metric is found without reading them all
) STRICT, WITHOUT ROWID;

CREATE TABLE scores (
  attempt INTEGER NOT NULL REFERENCES attempts (id),
  seq     INTEGER NOT NULL,
  step    INTEGER NOT NULL,
  tokens  INTEGER NOT NULL,
  time    INTEGER NOT NULL,
  name    TEXT NOT NULL,
  value   ANY NOT NULL,
  low     ANY NOT NULL,
  high    ANY NOT NULL,
  chance  ANY NOT NULL,
  n       INTEGER NOT NULL,
  seed    INTEGER NOT NULL,
  unit    TEXT NOT NULL,
  PRIMARY KEY (attempt, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE generations (
  attempt   INTEGER NOT NULL REFERENCES attempts (id),
  seq       INTEGER NOT NULL,
  step      INTEGER NOT NULL,
  tokens    INTEGER NOT NULL,
  time      INTEGER NOT NULL,
  prompt_no INTEGER NOT NULL,
  prompt    TEXT NOT NULL,
  text      TEXT NOT NULL,
  reference TEXT NOT NULL,
  scores    TEXT NOT NULL, -- JSON object; non-finite values are strings
  PRIMARY KEY (attempt, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
  attempt INTEGER NOT NULL REFERENCES attempts (id),
  seq     INTEGER NOT NULL,
  step    INTEGER NOT NULL,
  elapsed INTEGER NOT NULL,
  time    INTEGER NOT NULL,
  kind    TEXT NOT NULL,
  text    TEXT NOT NULL,
  PRIMARY KEY (attempt, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE artifacts (
  attempt INTEGER NOT NULL REFERENCES attempts (id),
  seq     INTEGER NOT NULL,
  step    INTEGER NOT NULL,
  time    INTEGER NOT NULL,
  kind    TEXT NOT NULL,
  path    TEXT NOT NULL,
  sha256  TEXT NOT NULL,
  bytes   INTEGER NOT NULL,
  PRIMARY KEY (attempt, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE tables (
  attempt INTEGER NOT NULL REFERENCES attempts (id),
  seq     INTEGER NOT NULL,
  step    INTEGER NOT NULL,
  time    INTEGER NOT NULL,
  name    TEXT NOT NULL,
  columns TEXT NOT NULL, -- JSON array of cells
  cells   TEXT NOT NULL, -- JSON array of rows
  PRIMARY KEY (attempt, seq)
) STRICT, WITHOUT ROWID;

-- What an attempt wrote is in view up to last_step: beyond it a later attempt
-- started over. NULL: all of it. Readers also leave out what a later attempt
-- wrote once more at the same step.
CREATE VIEW attempts_in_view AS
SELECT id, run, number,
       (SELECT min(later.from_step) FROM attempts AS later
         WHERE later.run = a.run AND later.number > a.number) AS last_step
  FROM attempts AS a;
