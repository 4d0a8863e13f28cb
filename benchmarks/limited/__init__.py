"""Measured jobs whose kinds have limits; installed only where ``BENCH_LIMITS`` is set."""
