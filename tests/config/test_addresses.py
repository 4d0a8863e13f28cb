"""DATABASE_URL and REDIS_URL, good and bad."""

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.addresses import BadAddress, DatabaseAddress, parse_database_url, parse_redis_url

GOOD: dict[str, DatabaseAddress] = {
    "postgresql://ann:secret@db.example:5433/jobs": DatabaseAddress(
        "jobs", "ann", "secret", "db.example", "5433"
    ),
    "postgres:///jobs": DatabaseAddress("jobs"),
    "postgresql://ann@/jobs?host=/var/run/postgresql": DatabaseAddress(
        "jobs", "ann", host="/var/run/postgresql"
    ),
    "postgresql://ann@%2Fvar%2Frun%2Fpostgresql:5433/jobs": DatabaseAddress(
        "jobs", "ann", host="/var/run/postgresql", port="5433"
    ),
    "postgresql://a%40b:p%3A%2F%23%25+%C3%A9@h/my%20jobs": DatabaseAddress(
        "my jobs", "a@b", "p:/#%+é", "h"
    ),
    "postgresql://ann:a@b@h/jobs": DatabaseAddress("jobs", "ann", "a@b", "h"),
    "postgresql://[2001:db8::1]:5432/jobs": DatabaseAddress(
        "jobs", host="2001:db8::1", port="5432"
    ),
    "postgresql://h/jobs?sslmode=verify-full&sslrootcert=/etc/ca%20s.pem": DatabaseAddress(
        "jobs", host="h", options={"sslmode": "verify-full", "sslrootcert": "/etc/ca s.pem"}
    ),
    "postgresql:///jobs?host=one,two&port=5432,5433&target_session_attrs=read-write": (
        DatabaseAddress(
            "jobs",
            host="one,two",
            port="5432,5433",
            options={"target_session_attrs": "read-write"},
        )
    ),
    "postgresql://h/jobs?options=-c%20lock_timeout%3D5s&connect_timeout=3": DatabaseAddress(
        "jobs", host="h", options={"options": "-c lock_timeout=5s", "connect_timeout": "3"}
    ),
}

BAD = {
    "": "must begin with postgresql://",
    "jobs": "must begin with postgresql://",
    "mysql://h/jobs": "must begin with postgresql://, not mysql:",
    "postgresql://h": "names no database",
    "postgresql://h/": "names no database",
    "postgresql:///var/run/jobs": "has a / in the database name",
    "postgresql://h:port/jobs": "a port that is not a number",
    "postgresql://h:0/jobs": "a port that is not a number",
    "postgresql://h:65536/jobs": "a port that is not a number",
    "postgresql://2001:db8::1/jobs": "several colons",
    "postgresql://[2001:db8::1/jobs": "is not a URL",
    "postgresql://u:p#w@h/jobs": "has a #",
    "postgresql://u:p%w@h/jobs": "a % that is not followed",
    "postgresql://u:%ff@h/jobs": "is not UTF-8",
    "postgresql://h/jobs ": "has a blank",
    "postgresql://h/jobs\n": "has a blank",
    "postgresql://h/jobs?sslmode": "options that are not written",
    "postgresql://h/jobs?sslmode=none": "unknown sslmode",
    "postgresql://h/jobs?sslmode=requires": "did you mean require",
    "postgresql://h/jobs?ssl_mode=require": "unknown option ssl_mode; did you mean sslmode",
    "postgresql://h/jobs?sslmode=require&sslmode=allow": "sslmode twice",
    "postgresql://h/jobs?connect_timeout=soon": "connect_timeout that is not a number",
    f"postgresql:///jobs?host=/{'x' * 100}": "longer than 103 bytes",
}

BAD_REDIS = {
    "": "must begin with redis://",
    "http://h": "must begin with redis://",
    "redis://": "names no host",
    "redis:///0": "names no host",
    "redis://h:port/0": "a port that is not a number",
    "redis://h/zero": "a database that is not a number",
    "redis://h/0?db=two": "a database that is not a number",
    "unix://run/redis.sock": "must name the socket",
    "unix:///run/redis.sock?db=-1": "a database that is not a number",
    f"unix:///{'x' * 110}": "longer than 103 bytes",
    "redis://:p#w@h/0": "has a #",
    "redis://h/0?db=1&db=2": "db twice",
}


@pytest.mark.parametrize("url", GOOD)
def test_a_good_database_url(url: str) -> None:
    assert parse_database_url(url) == GOOD[url]


@pytest.mark.parametrize(
    "url", [url for url in GOOD if "a@b@h" not in url and "one,two" not in url]
)
def test_libpq_reads_the_same(url: str) -> None:
    address = parse_database_url(url)
    ours = {
        "dbname": address.name,
        "user": address.user,
        "password": address.password,
        "host": address.host,
        "port": address.port,
        **address.options,
    }
    theirs = psycopg.conninfo.conninfo_to_dict(url)
    assert {key: value for key, value in ours.items() if value} == theirs


@pytest.mark.parametrize("url", BAD)
def test_a_bad_database_url(url: str) -> None:
    with pytest.raises(BadAddress, match=BAD[url]):
        parse_database_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://h",
        "redis://h:6380/3",
        "rediss://ann:p%40ss@h:6380/0?ssl_cert_reqs=none",
        "redis://[::1]:6379/0",
        "unix:///run/redis.sock?db=2",
        "unix:///run/with%20space/redis.sock",
    ],
)
def test_a_good_redis_url(url: str) -> None:
    assert parse_redis_url(url) == url


@pytest.mark.parametrize("url", BAD_REDIS)
def test_a_bad_redis_url(url: str) -> None:
    with pytest.raises(BadAddress, match=BAD_REDIS[url]):
        parse_redis_url(url)


def test_an_error_never_tells_the_password() -> None:
    for url in (*BAD, *BAD_REDIS, "postgresql://u:hunter2@h:x/jobs", "redis://:hunter2@h:x/0"):
        for parse in (parse_database_url, parse_redis_url):
            try:
                parse(url)
            except BadAddress as error:
                assert "hunter2" not in str(error)
                assert "\n" not in str(error)
    assert "hunter2" not in repr(parse_database_url("postgresql://u:hunter2@h/jobs"))


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_database_url, parse_redis_url):
        for url in (text, f"postgresql://{text}", f"redis://{text}", f"unix://{text}"):
            try:
                parse(url)
            except BadAddress as error:
                assert str(error)
