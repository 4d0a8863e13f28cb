"""Measuring the engine beside plain rq, on the same servers, in the same run."""
