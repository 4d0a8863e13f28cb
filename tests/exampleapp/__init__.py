"""An app on the core, as its author would write it: channels, metrics, spans and a logger."""
