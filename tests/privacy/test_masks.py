"""Masks show enough to recognise a value, and too little to have it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.fields import HIDDEN, mask, mask_document, mask_email


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("user@example.com", "u***@e***.com"),
        (" Ana.Lima@mail.example.com.br ", "A***@m***.br"),
        ("a@b.c", "a***@b***.c"),
        ("odd@@example.com", "o***@e***.com"),
        ("nobody", HIDDEN),
        ("@example.com", HIDDEN),
        ("user@localhost", HIDDEN),
        (None, HIDDEN),
        ("", HIDDEN),
    ],
)
def test_an_address_keeps_two_letters_and_its_end(address: str | None, shown: str) -> None:
    assert mask_email(address) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        ("123.456.789-09", "***.***.***-09"),
        ("12345678909", "*********09"),
        ("12.ABC.345/01DE-35", "**.***.***/****-35"),
        (12345678909, "*********09"),
        ("1234", HIDDEN),
        ("", HIDDEN),
    ],
)
def test_a_document_keeps_its_shape_and_its_last_two(number: object, shown: str) -> None:
    assert mask_document(number) == shown


def test_the_generic_mask_hides_all_but_what_is_asked_for() -> None:
    assert mask("hunter2 is long") == HIDDEN
    assert mask("4111111111111111", keep=4) == "***1111"
    assert mask("short", keep=4) == HIDDEN
    assert mask(None) == mask(0) == HIDDEN


@given(st.text(min_size=4, alphabet=st.characters(categories=["L", "N"])))
def test_no_mask_contains_what_it_masks(secret: str) -> None:
    assert secret not in mask(secret, keep=2)
    assert secret not in mask_document(secret)
    assert secret not in mask_email(f"x{secret}@x{secret}.com")
