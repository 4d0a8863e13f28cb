class EmbeddedError(Exception):
    """An embedded server cannot run; the text is one line for the person who started it."""
