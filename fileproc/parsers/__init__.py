"""Readers of documents. They run in a sandbox, without Django and without settings."""
