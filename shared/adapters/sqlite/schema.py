"""The tables of a vault's file and of the key file.

Ids are the 16 bytes of their UUID, instants are milliseconds, `seq` is a row's number in this file: it only grows and
is never used twice, so that a lease list made of numbers can never come to mean another row. The numbers of terms are
kept so by `vault.last_term`.
"""

from __future__ import annotations

SPAN_INDEX = """
CREATE INDEX IF NOT EXISTS memory_span ON memory (tier, length(date - covers_from), date) WHERE tier > 1
"""
"""Reflections by the number of digits of their coverage's length in ms: one of n digits that goes on at an instant ends
within 10^n ms of it. Files of earlier versions get it from upkeep; without it the same is found more slowly.
"""

VAULT = f"""
CREATE TABLE vault (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  sealed INTEGER NOT NULL DEFAULT 0,
  imported INTEGER NOT NULL DEFAULT 0,
  raw_units INTEGER NOT NULL DEFAULT 0,
  raw_tokens INTEGER NOT NULL DEFAULT 0,
  tier2_count INTEGER NOT NULL DEFAULT 0,
  tier2_importance INTEGER NOT NULL DEFAULT 0,
  tier2_tokens INTEGER NOT NULL DEFAULT 0,
  rows1 INTEGER NOT NULL DEFAULT 0,
  rows2 INTEGER NOT NULL DEFAULT 0,
  rows3 INTEGER NOT NULL DEFAULT 0,
  tokens INTEGER NOT NULL DEFAULT 0,
  terms INTEGER NOT NULL DEFAULT 0,
  last_term INTEGER NOT NULL DEFAULT 0
);
INSERT INTO vault (one) VALUES (1);
CREATE TABLE batch (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  tier INTEGER,
  state TEXT NOT NULL,
  count INTEGER NOT NULL DEFAULT 0,
  tokens INTEGER NOT NULL DEFAULT 0,
  covers_from INTEGER NOT NULL DEFAULT 0,
  covers_to INTEGER NOT NULL DEFAULT 0,
  leased INTEGER NOT NULL DEFAULT 0,
  expires INTEGER NOT NULL DEFAULT 0,
  lease INTEGER NOT NULL DEFAULT 0,
  renewed INTEGER,
  committed INTEGER,
  created TEXT NOT NULL DEFAULT '[]',
  sources_consolidated INTEGER NOT NULL DEFAULT 0,
  sources_deleted INTEGER NOT NULL DEFAULT 0,
  removed INTEGER NOT NULL DEFAULT 0,
  returned INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX batch_open ON batch (tier, expires) WHERE state = 'leased';
CREATE TABLE lease_list (batch INTEGER PRIMARY KEY, seqs BLOB NOT NULL);
CREATE TABLE memory (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id BLOB NOT NULL UNIQUE,
  tier INTEGER NOT NULL,
  text TEXT NOT NULL,
  role TEXT NOT NULL,
  date INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  written INTEGER NOT NULL,
  session TEXT,
  importance INTEGER,
  covers_from INTEGER,
  covers_to INTEGER,
  pool INTEGER NOT NULL,
  origin INTEGER,
  entry INTEGER,
  consolidated_by INTEGER,
  position INTEGER
);
CREATE INDEX memory_pool ON memory (tier, pool, id) WHERE consolidated_by IS NULL AND tier < 3;
CREATE INDEX memory_time ON memory (tier, date, id);
{SPAN_INDEX.strip()};
CREATE INDEX memory_session ON memory (session, date, id) WHERE session IS NOT NULL;
CREATE INDEX memory_source ON memory (consolidated_by, position) WHERE consolidated_by IS NOT NULL;
CREATE INDEX memory_origin ON memory (origin, entry) WHERE origin IS NOT NULL;
CREATE TABLE idempotency (
  key_hash TEXT PRIMARY KEY, body_hash TEXT NOT NULL, ids BLOB NOT NULL, expires INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX idempotency_expiry ON idempotency (expires);
CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB NOT NULL);
CREATE TABLE term (id INTEGER PRIMARY KEY, stem TEXT NOT NULL UNIQUE);
CREATE TABLE passage (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id BLOB NOT NULL,
  number INTEGER NOT NULL,
  terms BLOB NOT NULL,
  counts BLOB NOT NULL,
  vector BLOB
);
CREATE UNIQUE INDEX passage_memory ON passage (id, number);
CREATE INDEX passage_waiting ON passage (seq) WHERE vector IS NULL
"""

KEYS = """
CREATE TABLE vault (
  id TEXT PRIMARY KEY, epoch INTEGER NOT NULL, written INTEGER NOT NULL, model TEXT, importing INTEGER,
  made INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE key (
  id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, vault TEXT NOT NULL, name TEXT NOT NULL, scopes TEXT NOT NULL,
  written INTEGER NOT NULL, minted_by TEXT, last_used INTEGER, disabled INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX key_vault ON key (vault);
CREATE INDEX key_minter ON key (minted_by) WHERE minted_by IS NOT NULL;
CREATE TABLE purge (vault TEXT PRIMARY KEY, below INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE usage (
  key TEXT NOT NULL, day TEXT NOT NULL, operation TEXT NOT NULL, requests INTEGER NOT NULL, tokens INTEGER NOT NULL,
  PRIMARY KEY (key, day, operation)
) WITHOUT ROWID
"""
