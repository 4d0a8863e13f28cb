"""Stand-ins of the mail providers."""
