"""Embedding models that run inside the process: `minilm` (default), `static` (light), `hashing` (tests)."""
