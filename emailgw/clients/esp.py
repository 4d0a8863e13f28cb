"""Any other mail backend of Django, above all anymail's for providers with an API."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from emailgw.errors import Down, Locked, MaybeSent, NotSent, SenderRefused
from emailgw.messages import OutgoingEmail
from emailgw.provider_text import provider_id

_SES_CODES = {
    "MessageRejected": "SES_MESSAGE_REJECTED",
    "BadRequestException": "SES_MESSAGE_REJECTED",
    "MailFromDomainNotVerifiedException": "SES_MAIL_FROM_DOMAIN_NOT_VERIFIED",
    "MailFromDomainNotVerified": "SES_MAIL_FROM_DOMAIN_NOT_VERIFIED",
    "ConfigurationSetDoesNotExist": "SES_CONFIGURATION_SET_DOES_NOT_EXIST",
    "NotFoundException": "SES_CONFIGURATION_SET_DOES_NOT_EXIST",
    "SendingPausedException": "SES_ACCOUNT_SENDING_PAUSED",
    "AccountSuspendedException": "SES_ACCOUNT_SENDING_PAUSED",
    "AccountSendingPaused": "SES_ACCOUNT_SENDING_PAUSED",
    "LimitExceededException": "SES_DAILY_QUOTA_EXCEEDED",
    "TooManyRequestsException": "SES_THROTTLING",
    "Throttling": "SES_THROTTLING",
    "ThrottlingException": "SES_THROTTLING",
    "ServiceUnavailable": "SES_SERVICE_UNAVAILABLE",
    "ServiceUnavailableException": "SES_SERVICE_UNAVAILABLE",
}
_LOCKED = frozenset(
    {
        "InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId",
        "SignatureDoesNotMatch", "InvalidSignatureException", "IncompleteSignature",
        "IncompleteSignatureException", "MissingAuthenticationToken",
        "MissingAuthenticationTokenException", "ExpiredToken", "ExpiredTokenException",
        "RequestExpired", "RequestTimeTooSkewed", "OptInRequired", "NotAuthorized",
    }
)  # fmt: skip
"""The credentials or the clock are wrong: no mail is accepted at all."""
_DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
"""A policy denies the request, which may depend on the sender."""
_BEFORE_THE_REQUEST = frozenset(
    {
        "EndpointConnectionError",
        "ConnectTimeoutError",
        "ProxyConnectionError",
        "SSLError",
    }
)
"""Errors of the SDK that are raised before anything is sent."""
_WITHOUT_CREDENTIALS = frozenset(
    {
        "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError",
        "TokenRetrievalError", "UnauthorizedSSOTokenError", "SSOTokenLoadError", "NoRegionError",
        "NoAuthTokenError", "MetadataRetrievalError", "RefreshWithMFAUnsupportedError",
    }
)  # fmt: skip


def hand_over(backend: Any, email: OutgoingEmail) -> str:
    """Send the email; return the provider's message id."""
    from anymail.exceptions import AnymailAPIError, AnymailError

    message: Any = email.message
    if "amazon_ses" in type(backend).__module__:
        tag = {"Name": "outbox_id", "Value": str(email.outbox_id)}
        message.esp_extra = {"EmailTags": [tag]}
    _disable_retries(backend)
    try:
        backend.open()
    except Exception as error:  # no request was made yet
        raise Locked("SES_NOT_AUTHORIZED", type(error).__name__) from None
    try:
        backend.send_messages([message])
    except AnymailAPIError as error:
        raise classify(error) from None
    except AnymailError as error:  # refused before anything was sent
        raise NotSent("INVALID_EMAIL", type(error).__name__) from None
    except Exception as error:
        raise _of_sdk(error) from None
    finally:
        with suppress(Exception):
            backend.close()
    status = getattr(message, "anymail_status", None)  # only anymail's backends set it
    named = provider_id(status.message_id, email.envelope) if status else ""
    return named or email.message_id


def _disable_retries(backend: Any) -> None:
    """Disable retries of the SDK: a request without a response may have been carried out."""
    params = getattr(backend, "client_params", None)
    if params is None:
        return
    from botocore.client import Config

    from emailgw.config import settings

    timeout = settings().SEND_TIMEOUT
    once = Config(
        retries={"total_max_attempts": 1}, connect_timeout=min(5.0, timeout), read_timeout=timeout
    )
    params["config"] = params["config"].merge(once) if "config" in params else once


def classify(error: Any) -> NotSent | MaybeSent:
    """Classify an error: certainly not sent, or maybe sent."""
    response = error.response
    if isinstance(response, dict):  # of the SDK for SES
        found = response.get("Error", {})
        name, text = str(found.get("Code", "")), str(found.get("Message", ""))
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return _of_ses(name, text, status)
    if response is not None:
        return _of_status(int(getattr(response, "status_code", 0)))
    return _of_sdk(error.__cause__ or error)


def _of_ses(name: str, text: str, status: int) -> NotSent | MaybeSent:
    if name in _LOCKED:
        return Locked("SES_NOT_AUTHORIZED", f"{name}: {text}")
    if name in _DENIED:
        return SenderRefused("SES_SENDER_REFUSED", f"{name}: {text}")
    code = _SES_CODES.get(name, "")
    lowered = text.lower()
    if "maximum sending rate" in lowered:
        code = "SES_MAX_SEND_RATE_EXCEEDED"
    elif "daily message quota" in lowered:
        code = "SES_DAILY_QUOTA_EXCEEDED"
    if code == "SES_SERVICE_UNAVAILABLE":
        return Down(code, name)
    if code:
        return NotSent(code, f"{name}: {text}")
    return _of_status(status, name)


def _of_status(status: int, name: str = "") -> NotSent | MaybeSent:
    said = f"{status} {name}".strip()
    if status in (401, 407):
        return Locked("SES_NOT_AUTHORIZED", said)
    if status == 403:
        return SenderRefused("SES_SENDER_REFUSED", said)
    if status == 429:
        return NotSent("SES_THROTTLING", said)
    if status == 503:
        return Down("SES_SERVICE_UNAVAILABLE", said)
    if 400 <= status < 500:
        return NotSent("SES_MESSAGE_REJECTED", said)
    return MaybeSent("UNKNOWN_ERROR", said)


def _of_sdk(error: BaseException) -> NotSent | MaybeSent:
    name = type(error).__name__
    if name in _WITHOUT_CREDENTIALS:
        return Locked("SES_NOT_AUTHORIZED", name)
    if name == "ParamValidationError":
        return NotSent("INVALID_EMAIL", name)
    if name in _BEFORE_THE_REQUEST:
        return Down("SES_TIMEOUT" if "Timeout" in name else "NETWORK_ERROR", name)
    return MaybeSent("SES_TIMEOUT", name)
