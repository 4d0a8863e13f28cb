"""An app with a sensitive payload, for processes that start with and without its key."""
