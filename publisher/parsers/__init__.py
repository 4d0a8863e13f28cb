"""Readers of images. They run in a sandbox, without Django and without settings."""
