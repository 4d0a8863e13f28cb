"""A multi-tenant email gateway: accept once, send once, keep each company's data private.

::

    accepted = services.accept(company, request, by="shop")  # its job has the same id
"""

from emailgw.config import EMAIL_JOB_CONFIG
from emailgw.payloads import (
    EmailSendJobData,
    EmailSendJobOptions,
    EmailSendJobResult,
    validate_email_job_data,
)

__all__ = [
    "EMAIL_JOB_CONFIG",
    "EmailSendJobData",
    "EmailSendJobOptions",
    "EmailSendJobResult",
    "validate_email_job_data",
]
