"""Embedding models behind an endpoint that speaks OpenAI's ``/embeddings``."""
