"""Tokens kept in AWS Secrets Manager."""
