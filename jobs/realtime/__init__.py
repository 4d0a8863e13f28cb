"""The way out of the feed: events as they happen, for browsers and other programs.

``sockets.Events`` (WebSocket) and ``streams`` (server-sent events and plain GET, the endpoints of
``jobs.api.events``) answer the same question, ``questions.Question``, about the same feed. ``hub``
reads the feed once for all listeners of a process; ``access`` says who is asking.
"""
