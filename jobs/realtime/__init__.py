"""The way out of the feed: events as they happen, for browsers and other programs.

``sockets.Events`` (WebSocket), ``views.stream`` (server-sent events) and ``views.events`` (plain
GET) answer the same question, ``questions.Question``, about the same feed. ``hub`` reads the feed
once for all listeners of a process; ``access`` says who is asking.
"""
