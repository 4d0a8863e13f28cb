"""The web server keeps its connections; everything else opens its own."""

from __future__ import annotations

import pytest

from config import environment

WEB = ["/srv/manage.py", "jobs", "web", "8000"]


def test_the_web_server_has_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_POOL", raising=False)
    assert environment.pool(WEB)["pool"] == {"min_size": 1, "max_size": 16, "timeout": 10}
    monkeypatch.setenv("DATABASE_POOL", "3")
    assert environment.pool(WEB)["pool"] == {"min_size": 1, "max_size": 3, "timeout": 10}
    monkeypatch.setenv("DATABASE_POOL", "0")
    assert environment.pool(WEB) == {}


@pytest.mark.parametrize(
    "arguments", [[], ["manage.py"], ["manage.py", "jobs", "worker"], ["manage.py", "migrate"]]
)
def test_others_have_none(arguments: list[str]) -> None:
    assert environment.pool(arguments) == {}


@pytest.mark.parametrize("size", ["many", "-1", "1001", "1.5"])
def test_a_wrong_size_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], size: str
) -> None:
    monkeypatch.setenv("DATABASE_POOL", size)
    with pytest.raises(SystemExit):
        environment.pool(WEB)
    assert capsys.readouterr().err.startswith("DATABASE_POOL: must be a number of connections")
