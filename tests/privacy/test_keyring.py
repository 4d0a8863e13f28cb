"""What is sealed opens where it belongs, and nowhere else; keys are what they should be."""

from __future__ import annotations

import base64
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import settings as limits
from hypothesis import strategies as st

from jobs import conf, keyring
from jobs.errors import ConfigError, SealError, UnknownKey
from jobs.fields import blind_index
from jobs.keyring import KeyRing, Place
from tests.privacy import vault

RING = KeyRing({"k2": b"2" * 32, "k1": b"1" * 32})
HERE = Place("person", "cpf", "7", "acme")
words = st.text(max_size=20)
places = st.builds(Place, words, words, words, words)


@given(st.binary(max_size=300), places)
def test_what_is_sealed_opens_in_its_place(clear: bytes, place: Place) -> None:
    sealed = RING.seal(clear, place)
    assert RING.open(sealed, place) == clear
    assert sealed.startswith("enc1.k2.")
    assert sealed != RING.seal(clear, place)


@given(places, places)
def test_it_opens_in_no_other_place(one: Place, other: Place) -> None:
    assume(one != other)
    with pytest.raises(SealError, match="does not open"):
        RING.open(RING.seal(b"secret", one), other)


@pytest.mark.parametrize("part", ["table", "column", "row", "tenant"])
def test_every_part_of_the_place_counts(part: str) -> None:
    sealed = RING.seal(b"123.456.789-09", HERE)
    with pytest.raises(SealError, match="another row, column or tenant") as caught:
        RING.open(sealed, replace(HERE, **{part: "8"}))
    assert "123.456" not in str(caught.value)


def test_parts_of_a_place_do_not_run_into_each_other() -> None:
    one, other = Place("a", "b", "c|d", "e"), Place("a", "b", "c", "d|e")
    assert one.text() != other.text()


@given(st.data())
def test_no_changed_character_goes_unnoticed(data: st.DataObject) -> None:
    sealed = RING.seal(b"secret", HERE)
    at = data.draw(st.integers(0, len(sealed) - 1))
    other = data.draw(st.characters(codec="ascii"))
    changed = sealed[:at] + other + sealed[at + 1 :]
    assume(changed != sealed)
    # The last character of base64 may have bits that say nothing.
    assume(at < len(sealed) - 1)
    with pytest.raises(SealError):
        RING.open(changed, HERE)


@pytest.mark.parametrize("text", ["", "plain", "enc1.k2.", "enc1.k2.AAAA", "enc2.k2.AAAA"])
def test_what_was_never_sealed_is_no_value(text: str) -> None:
    with pytest.raises(SealError):
        RING.open(text, HERE)


def test_older_keys_open_and_unknown_ones_are_named() -> None:
    old = KeyRing({"k1": b"1" * 32})
    sealed = old.seal(b"secret", HERE)
    assert RING.open(sealed, HERE) == b"secret"
    with pytest.raises(UnknownKey, match="sealed with key 'k2', which JOBS\\['KEYS'\\] lacks"):
        old.open(RING.seal(b"secret", HERE), HERE)


def test_another_key_under_the_same_id_does_not_open() -> None:
    with pytest.raises(SealError, match="is not the one"):
        KeyRing({"k2": b"x" * 32}).open(RING.seal(b"secret", HERE), HERE)


def test_tenants_have_keys_of_their_own() -> None:
    assert RING._cipher("k1", "a") is RING._cipher("k1", "a")
    one, other = Place("t", "c", "1", "a"), Place("t", "c", "1", "b")
    nonce, clear = b"0" * 12, b"secret"
    sealed = {RING._cipher("k1", p.tenant).encrypt(nonce, clear, b"") for p in (one, other)}
    assert len(sealed) == 2


def test_a_ring_shows_no_key() -> None:
    assert repr(RING) == "KeyRing(k2, k1)"


# ---- settings


def test_keys_come_from_the_setting_an_environment_variable_or_a_file(
    settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text(vault.NEW + "\n")
    monkeypatch.setenv("A_KEY", vault.OLD)
    settings.JOBS = {"KEYS": {"f": f"file:{tmp_path}/key", "e": "env:A_KEY"}}
    assert keyring.ring().ids == ("f", "e")
    settings.JOBS = {"KEYS": {"f": vault.NEW, "e": vault.OLD.rstrip("=")}}
    assert keyring.ring()._keys == {"f": b"n" * 31 + b"\xff", "e": b"o" * 32}


SHORT = base64.b64encode(b"secret-but-short").decode()


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ({}, "JOBS\\['KEYS'\\] is missing"),
        ({"k": "no base64!"}, "'k'\\] is not base64"),
        ({"k": SHORT}, "has 16 bytes instead of 32"),
        ({"k": ""}, "has 0 bytes instead of 32"),
        ({"k": "env:NO_SUCH_KEY"}, "environment variable NO_SUCH_KEY is not set"),
        ({"k": "file:/no/such/key"}, "/no/such/key cannot be read"),
        ({"k": 7}, "must be text, got int"),
        ({"bad id": vault.OLD}, "a key id must be"),
        ({7: vault.OLD}, "a key id must be"),
        ({"a": vault.OLD, "b": vault.OLD}, "'b' and 'a' are the same key"),
    ],
)
def test_wrong_keys_are_refused_by_name(settings: Any, raw: Any, told: str) -> None:
    settings.JOBS = {"KEYS": raw}
    with pytest.raises(ConfigError, match=told) as caught:
        keyring.ring()
    for secret in (vault.OLD, SHORT, "no base64!"):
        assert secret not in str(caught.value)


@pytest.mark.parametrize("raw", [{"KEYS": vault.OLD}, {"INDEX_KEY": {"k": vault.OLD}}])
def test_a_key_in_the_wrong_place_is_not_repeated(raw: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        conf.parse(raw)
    assert vault.OLD not in str(caught.value)
    assert vault.OLD not in repr(conf.parse({"KEYS": {"k": vault.OLD}, "INDEX_KEY": vault.OLD}))


def test_a_new_key_is_made_by_a_command() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "jobs.newkey"], capture_output=True, text=True, check=True
    )
    assert made.stderr == ""
    assert len(base64.urlsafe_b64decode(made.stdout.strip())) == 32


# ---- blind indexes


@limits(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(words, words, words.filter(bool), words)
def test_an_index_tells_equal_values_of_one_purpose_and_tenant(
    keys: Any, value: str, other: str, purpose: str, tenant: str
) -> None:
    index = blind_index(value, purpose, tenant)
    assert len(index) == 64
    assert index == blind_index(value, purpose, tenant)
    assert (index == blind_index(other, purpose, tenant)) == (value == other)
    assert index != blind_index(value, purpose + "x", tenant)
    assert index != blind_index(value, purpose, tenant + "x")


def test_an_index_depends_on_its_key(keys: Any) -> None:
    before = blind_index("12345678909", "person.cpf")
    keys.JOBS = {**vault.KEYS, "INDEX_KEY": vault.NEW}
    assert blind_index("12345678909", "person.cpf") != before


def test_an_index_needs_its_key_a_purpose_and_a_text(settings: Any) -> None:
    settings.JOBS = {}
    with pytest.raises(ConfigError, match="INDEX_KEY"):
        blind_index("x", "purpose")
    settings.JOBS = vault.KEYS
    with pytest.raises(ValueError, match="purpose"):
        blind_index("x", "")
    with pytest.raises(TypeError, match="got int"):
        blind_index(7, "purpose")  # type: ignore[arg-type]
