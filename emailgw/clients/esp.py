"""Providers with an interface of their own, through anymail: Amazon SES and others."""

from __future__ import annotations

from typing import Any

from emailgw.errors import Down, MaybeSent, NotSent
from emailgw.letters import Letter

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
_BEFORE_THE_REQUEST = frozenset(
    {
        "EndpointConnectionError",
        "ConnectTimeoutError",
        "ProxyConnectionError",
        "SSLError",
        "NoCredentialsError",
        "PartialCredentialsError",
        "NoRegionError",
        "ParamValidationError",
    }
)
"""Errors of the SDK that are raised while nothing has been sent yet."""


def hand_over(backend: Any, letter: Letter) -> str:
    """The provider's id of the letter, which it has taken."""
    from anymail.exceptions import AnymailAPIError, AnymailError

    message: Any = letter.message
    if "amazon_ses" in type(backend).__module__:
        tag = {"Name": "outbox_id", "Value": str(letter.outbox_id)}
        message.esp_extra = {"EmailTags": [tag]}
    _send_once(backend)
    try:
        backend.send_messages([message])
    except AnymailAPIError as error:
        raise judged(error) from error
    except AnymailError as error:  # refused before anything was sent
        raise NotSent("INVALID_EMAIL", type(error).__name__) from error
    except Exception as error:
        raise _of_sdk(error) from error
    status = message.anymail_status
    return str(status.message_id or letter.message_id)


def _send_once(backend: Any) -> None:
    """The SDK repeats nothing by itself: a request that was lost may have been carried out."""
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


def judged(error: Any) -> NotSent | MaybeSent:
    """What the provider's answer, or its silence, means."""
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
    code = _SES_CODES.get(name, "")
    told = text.lower()
    if "maximum sending rate" in told:
        code = "SES_MAX_SEND_RATE_EXCEEDED"
    elif "daily message quota" in told:
        code = "SES_DAILY_QUOTA_EXCEEDED"
    if code == "SES_SERVICE_UNAVAILABLE":
        return Down(code, name)
    if code:
        return NotSent(code, f"{name}: {text}")
    return _of_status(status, name)


def _of_status(status: int, name: str = "") -> NotSent | MaybeSent:
    said = f"{name} ({status})" if name else str(status)
    if status == 429:
        return NotSent("SES_THROTTLING", said)
    if status == 503:
        return Down("SES_SERVICE_UNAVAILABLE", said)
    if 400 <= status < 500:
        return NotSent("SES_MESSAGE_REJECTED", said)
    return MaybeSent("UNKNOWN_ERROR", said)


def _of_sdk(error: BaseException) -> NotSent | MaybeSent:
    name = type(error).__name__
    if name in _BEFORE_THE_REQUEST:
        return Down("SES_TIMEOUT" if "Timeout" in name else "NETWORK_ERROR", name)
    return MaybeSent("SES_TIMEOUT", name)
