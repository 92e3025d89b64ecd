"""Embedding models on Amazon Bedrock."""
