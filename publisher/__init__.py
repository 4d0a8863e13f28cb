"""Publish every post once, and on time, on the channels of several brands.

::

    made = services.enqueue(account, content, run_at=moment, by="shop")  # its job has the same id
"""
