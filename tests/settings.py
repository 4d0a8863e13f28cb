"""The project's settings, with the specimen jobs of the tests."""

from config.settings import *  # noqa: F403

INSTALLED_APPS += ["tests.specimens"]  # noqa: F405

KEYS = {
    "KEYS": {"test": "dDUOFYZzHIOnkmDTnGmrJ4NGvFxQWUgQZsPjCVmXv6k="},
    "INDEX_KEY": "c3K7fEXgLCdmWMqcgqJRHzv9oHmYYTOTSPEMTFPRt9M=",
}
"""Of whatever is encrypted in tests."""
JOBS = {**JOBS, **KEYS}  # noqa: F405
