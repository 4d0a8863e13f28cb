"""Documents whose bytes are their text, for a pipeline without parsers; see ``BENCH_UNPARSED``."""
