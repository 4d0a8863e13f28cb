"""Signatures are those that Amazon's documentation shows."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit

import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from jobs.blobs import sigv4

AT = datetime(2013, 5, 24, tzinfo=UTC)
KEY_ID, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


def test_the_example_of_the_documentation() -> None:
    url = sigv4.presign(
        "GET", "https://examplebucket.s3.amazonaws.com/test.txt", key_id=KEY_ID, secret=SECRET,
        region="us-east-1", at=AT, seconds=86400,
    )  # fmt: skip
    assert dict(parse_qsl(urlsplit(url).query)) == {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{KEY_ID}/20130524/us-east-1/s3/aws4_request",
        "X-Amz-Date": "20130524T000000Z",
        "X-Amz-Expires": "86400",
        "X-Amz-SignedHeaders": "host",
        "X-Amz-Signature": "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
    }


@pytest.mark.parametrize(
    ("method", "headers", "query"),
    [
        ("PUT", {"Content-Type": "text/plain; charset=utf-8", "Content-Length": "5"}, {}),
        ("PUT", {"If-None-Match": "*", "x-amz-checksum-sha256": "a+/="}, {}),
        ("GET", {}, {"response-content-disposition": "attachment; filename*=utf-8''Men%C3%BC"}),
        ("GET", {}, {"list-type": "2", "prefix": "a/b c~", "continuation-token": "x+/="}),
    ],
)
def test_others_sign_the_same(method: str, headers: dict[str, str], query: dict[str, str]) -> None:
    url = "https://s3.example.com:9000/bucket/a/b-1_2=3.pdf"
    request = AWSRequest(method, url, headers=dict(headers), params=dict(query))
    auth = S3SigV4QueryAuth(Credentials(KEY_ID, SECRET), "s3", "eu-west-1", expires=60)
    auth.add_auth(request)
    theirs = dict(parse_qsl(urlsplit(request.url).query))
    at = datetime.strptime(theirs["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)

    ours = sigv4.presign(
        method, url, key_id=KEY_ID, secret=SECRET, region="eu-west-1", at=at, seconds=60,
        headers=headers, query=query,
    )  # fmt: skip

    assert dict(parse_qsl(urlsplit(ours).query)) == theirs
