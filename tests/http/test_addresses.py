"""Which addresses and URLs may be called at all."""

# Letters that only look alike are the point.
# ruff: noqa: RUF001

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest

from jobs import addresses, conf, http
from jobs.errors import ConfigError
from tests.http.servers import World

INSIDE = [
    "0.0.0.0",  # noqa: S104
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.254",
    "127.0.0.1",
    "127.255.255.255",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "64:ff9b::7f00:1",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fd00:c1::a9fe:a9fe",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]
OUTSIDE = [
    "1.1.1.1",
    "93.184.215.14",
    "100.63.255.255",
    "100.128.0.1",
    "172.32.0.1",
    "2606:4700::1",
]


@pytest.mark.parametrize("text", INSIDE)
def test_an_address_inside_is_not_public(text: str) -> None:
    assert not addresses.is_public(ip_address(text))
    assert not addresses.Allowed().permits(ip_address(text), "api.example.com")


@pytest.mark.parametrize("text", OUTSIDE)
def test_an_address_outside_is_public(text: str) -> None:
    assert addresses.is_public(ip_address(text))


URLS = [
    *[f"http://[{text}]/" if ":" in text else f"http://{text}/" for text in INSIDE],
    "http://localhost/",
    "http://localhost./",
    "http://LOCALHOST/",
    "http://intranet/",
    "http://example.com./",
    "http://127.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0x0.0x0.0x1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://127.0.0.1.:80/",
    "http://1.2.3/",
    "http://example.0x7f/",
    "http://１２７.0.0.1/",
    "http://127。0。0。1/",
    "http://ｌｏｃａｌｈｏｓｔ/",
    "http://loc\u00adalhost/",
    "http://xn--a/",
    "http://xn--localhost-.example/",
    "http://a@b/",
    "http://user@example.com/",
    "http://user:secret@example.com/",
    "http://example.com@127.0.0.1/",
    "http://a#@b",
    "http://example.com#@127.0.0.1/",
    "http://example.com\\@127.0.0.1/",
    "http://127.0.0.1\\.example.com/",
    "http://exa mple.com/",
    "http://example.com/a b",
    "http://example.com/\r\nHost: inside",
    "http://example.com\t/",
    "http://ex%61mple.com/",
    "http://example.com%00.evil.net/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[::1",
    "http://[v1.a]/",
    "http:///path",
    "http://",
    "http://.example.com/",
    "http://-a.example.com/",
    "http://a..example.com/",
    f"http://{'a' * 64}.example.com/",
    "http://example.com:22/",
    "http://example.com:0/",
    "http://example.com:8443/",
    "http://example.com:65536/",
    "http://example.com:-1/",
    "https://example.com:8080/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "ftp://example.com/",
    "data:text/plain,hi",
    "ws://example.com/",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/info",
    "unix:/var/run/docker.sock",
    "javascript:alert(1)",
    "//example.com/",
    "/path",
    "example.com",
    "",
    "http://example.com/" + "a" * 9000,
]


@pytest.mark.parametrize("url", URLS)
def test_a_url_that_may_not_be_called_is_blocked_before_anything_is_asked(
    url: str, world: World
) -> None:
    with pytest.raises(http.Blocked):
        http.check(url)
    with pytest.raises(http.Blocked):
        http.get(url, **world.options)
    assert (world.asked, world.dialed) == ([], [])


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("https://example.com", "https://example.com"),
        ("HTTP://EXAMPLE.com:80/A?b=1#c", "http://example.com:80/A?b=1#c"),
        ("https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
        ("https://ｅxample.com/", "https://example.com/"),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"),
        ("https://my_bucket.s3.example.com/", "https://my_bucket.s3.example.com/"),
        ("https://93.184.215.14/", "https://93.184.215.14/"),
        ("https://[2606:4700::1]/", "https://[2606:4700::1]/"),
        ("https://example.com/?to=a@b#x@y", "https://example.com/?to=a@b#x@y"),
    ],
)
def test_a_sound_url_is_normalised(url: str, normal: str) -> None:
    assert str(http.check(url)).rstrip("/") == normal.rstrip("/")


# ---- exceptions


def test_loopback_and_private_networks_may_be_opened(settings: Any) -> None:
    settings.JOBS = {"HTTP_ALLOW": ["127.0.0.0/8", "fd12::/16", "minio"]}
    for url in ("http://127.0.0.1:9000/", "http://[fd12::1]:8080/", "http://minio:9000/"):
        http.check(url)
    for url in ("http://localhost/", "http://10.0.0.1/", "http://[::1]/", "http://minio.example/x"):
        if "minio" not in url:
            with pytest.raises(http.Blocked):
                http.check(url)
    with pytest.raises(http.Blocked, match="port 9000"):
        http.check("http://minio.example:9000/")


def test_what_is_opened_by_name_still_leads_to_no_metadata() -> None:
    allowed = addresses.allowed(("minio", "10.0.0.0/8", "fc00::/7"))
    assert allowed.permits(ip_address("192.168.3.4"), "minio")
    assert allowed.permits(ip_address("10.3.4.5"), "anything.example.com")
    assert not allowed.permits(ip_address("192.168.3.4"), "other")
    for text in (
        *("169.254.169.254", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200"),
        *("0.0.0.0", "224.0.0.1"),  # noqa: S104
    ):
        assert not allowed.permits(ip_address(text), "minio"), text


def test_more_ports_may_be_opened(settings: Any) -> None:
    settings.JOBS = {"HTTP_PORTS": [443, 8443]}
    http.check("https://example.com:8443/")
    with pytest.raises(http.Blocked, match="port 80"):
        http.check("http://example.com/")


@pytest.mark.parametrize(
    "raw",
    [
        {"HTTP_ALLOW": ["0.0.0.0/0"]},
        {"HTTP_ALLOW": ["::/0"]},
        {"HTTP_ALLOW": ["8.8.8.8"]},
        {"HTTP_ALLOW": ["169.254.169.254"]},
        {"HTTP_ALLOW": ["100.100.100.200"]},
        {"HTTP_ALLOW": ["fd00:ec2::254"]},
        {"HTTP_ALLOW": ["::ffff:127.0.0.1"]},
        {"HTTP_ALLOW": ["127.0.0.1/8"]},
        {"HTTP_ALLOW": ["*"]},
        {"HTTP_ALLOW": ["http://localhost"]},
        {"HTTP_ALLOW": ["localhost:9000"]},
        {"HTTP_ALLOW": ["Localhost"]},
        {"HTTP_ALLOW": [7]},
        {"HTTP_ALLOW": "localhost"},
        {"HTTP_ALLOW": None},
        {"HTTP_PORTS": [0]},
        {"HTTP_PORTS": [65536]},
        {"HTTP_PORTS": ["443"]},
        {"HTTP_PORTS": [True]},
        {"HTTP_PORTS": 443},
    ],
)
def test_a_wrong_exception_is_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(raw))):
        conf.parse(raw)
