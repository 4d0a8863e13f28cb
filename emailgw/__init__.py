"""A multi-tenant email gateway: accepts once, sends once, tells nobody what is nobody's business.

::

    accepted = services.accept(company, request, by="shop")     # the job's id is the outbox's id
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
