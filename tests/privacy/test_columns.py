"""Encrypted columns: clear to the program, closed in the table, bound to their row."""

from __future__ import annotations

import copy
import json
import pickle
import uuid
from typing import Any

import pytest
from django.core import serializers
from django.core.exceptions import FieldError
from django.db import models, transaction
from django.test.utils import isolate_apps
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st

from jobs.errors import SealError
from jobs.fields import (
    BlindIndexField,
    EncryptedJSONField,
    EncryptedTextField,
    Unopened,
    index_of,
    normalise_document,
    normalise_email,
)
from tests.privacy import vault
from tests.privacy.vault import Person, raw

CPF = "529.982.247-25"
storable = st.text(st.characters(codec="utf-8"), max_size=50)
leaves = st.none() | st.booleans() | st.integers() | storable
documents = st.lists(leaves) | st.dictionaries(storable, st.lists(leaves)) | storable


def stored(person: Person, column: str = "cpf") -> Any:
    [(text,)] = raw(f"SELECT {column} FROM privacy_person WHERE id = %s", person.pk)  # noqa: S608
    return text


def put(person: Person, column: str, text: str) -> None:
    raw(f"UPDATE privacy_person SET {column} = %s WHERE id = %s", text, person.pk)  # noqa: S608


def a_person(**values: Any) -> Person:
    return Person.objects.create(**{"company": "acme", "cpf": CPF, **values})


@limits(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=25,
)
@given(storable, documents)
def test_values_come_back_as_they_were(people: Any, text: str, data: Any) -> None:
    person = a_person(cpf=text, notes=text, extra=data)
    again = Person.objects.get(pk=person.pk)
    assert (again.cpf, again.notes, again.extra) == (text, text, data)


def test_the_table_holds_no_clear_value(people: Any) -> None:
    person = a_person(notes="a note on Maria", extra={"mother": "Maria"})
    [row] = raw("SELECT p::text FROM privacy_person p")
    assert "Maria" not in row[0]
    assert CPF not in row[0] and "52998224725" not in row[0]
    assert stored(person).startswith("enc1.old.")


@pytest.mark.parametrize("spelling", [str, lambda key: key.hex.upper(), lambda key: key])
def test_a_key_may_be_spelt_in_any_way(people: Any, spelling: Any) -> None:
    key = uuid.uuid4()
    a_person(id=spelling(key))
    assert Person.objects.get(pk=key).cpf == CPF


def test_null_stays_null_and_is_the_only_search(people: Any) -> None:
    a_person(cpf=None)
    a_person()
    assert Person.objects.filter(cpf__isnull=True).count() == 1
    for lookup in ({"cpf": CPF}, {"cpf__icontains": "5"}, {"cpf__in": [CPF]}, {"extra__a": 1}):
        with pytest.raises(FieldError):
            Person.objects.filter(**lookup).count()


@pytest.mark.parametrize("columns", [("cpf", "cpf"), ("notes", "notes"), ("cpf", "notes")])
def test_values_that_change_places_do_not_open(people: Any, columns: tuple[str, str]) -> None:
    one, other = a_person(notes="x"), a_person(cpf="111.444.777-35", notes="y")
    source, target = columns
    put(other, target, stored(one, source))
    again = Person.objects.get(pk=other.pk)
    with pytest.raises(SealError, match=f"privacy_person.{target} of row {other.pk}"):
        getattr(again, target)


def test_a_row_that_changes_tenants_behind_the_models_back_does_not_open(people: Any) -> None:
    person = a_person()
    raw("UPDATE privacy_person SET company = 'other'")
    with pytest.raises(SealError, match="another row, column or tenant"):
        _ = Person.objects.get(pk=person.pk).cpf


def test_a_row_that_is_saved_for_another_tenant_is_sealed_anew(people: Any) -> None:
    for read_before in (True, False):
        person = Person.objects.get(pk=a_person().pk)
        if read_before:
            assert person.cpf == CPF
        person.company = "other"
        person.save()
        again = Person.objects.get(pk=person.pk)
        assert again.cpf == CPF
        assert again.cpf_index == index_of(Person, "cpf_index", CPF, "other")


def test_a_copy_under_a_new_key_is_sealed_anew(people: Any) -> None:
    person = Person.objects.get(pk=a_person().pk)
    old = person.pk
    person.pk = uuid.uuid4()
    person._state.adding = True
    person.save()
    assert Person.objects.get(pk=person.pk).cpf == Person.objects.get(pk=old).cpf == CPF


def test_plain_text_in_the_table_is_an_error_and_never_an_answer(people: Any) -> None:
    person = a_person()
    put(person, "cpf", "plain text")
    with pytest.raises(SealError, match="no sealed value"):
        _ = Person.objects.get(pk=person.pk).cpf


def test_sealed_values_outside_of_their_row_show_nothing(people: Any) -> None:
    a_person()
    [(value,)] = Person.objects.values_list("cpf")
    assert isinstance(value, Unopened)
    assert repr(value) == str(value) == f"{value}" == "<sealed>"
    assert value.key_id == "old"
    assert copy.deepcopy(value) is value
    with pytest.raises(SealError):
        pickle.dumps(value)
    with pytest.raises(TypeError):
        json.dumps(value)


def test_what_goes_around_the_row_is_refused(people: Any) -> None:
    person = a_person()
    before = stored(person)
    with pytest.raises(FieldError, match="written by save"), transaction.atomic():
        Person.objects.update(cpf="111")
    person.cpf = "111"
    with pytest.raises(FieldError, match="written by save"), transaction.atomic():
        Person.objects.bulk_update([person], ["cpf"])
    with pytest.raises(FieldError), transaction.atomic():
        person.cpf = models.F("notes")
        person.save()
    assert stored(person) == before


def test_fixtures_carry_no_clear_value(people: Any) -> None:
    person = a_person(notes="Maria")
    for form in ("json", "python", "xml"):
        text = str(serializers.serialize(form, [person]))
        assert CPF not in text
        assert "Maria" not in text


def test_many_at_once(people: Any) -> None:
    made = Person.objects.bulk_create(
        [Person(company="acme", cpf=str(n), extra=n) for n in range(5)]
    )
    assert sorted(p.cpf for p in Person.objects.filter(pk__in=[p.pk for p in made])) == list(
        "01234"
    )


def test_deferred_and_refreshed_values(people: Any) -> None:
    pk = a_person(notes="first").pk
    person = Person.objects.only("id").get(pk=pk)
    assert (person.cpf, person.notes) == (CPF, "first")
    other = Person.objects.get(pk=pk)
    other.notes = "second"
    other.save(update_fields=["notes"])
    person.refresh_from_db()
    assert person.notes == "second"
    person.refresh_from_db(fields=["cpf"])
    assert person.cpf == CPF


def test_a_save_without_changes_writes_the_same(people: Any) -> None:
    person = Person.objects.get(pk=a_person().pk)
    before = stored(person)
    person.save()
    assert stored(person) == before


def test_changes_inside_of_json_are_saved(people: Any) -> None:
    person = Person.objects.get(pk=a_person(extra={"a": [1]}).pk)
    person.extra["a"].append(2)
    person.save()
    assert Person.objects.get(pk=person.pk).extra == {"a": [1, 2]}


@pytest.mark.parametrize(
    "values", [{"cpf": 7}, {"extra": {1, 2}}, {"extra": float("nan")}, {"company": None}]
)
def test_bad_values_are_refused_before_anything_is_written(
    people: Any, values: dict[str, Any]
) -> None:
    with pytest.raises((TypeError, SealError)) as caught, transaction.atomic():
        a_person(**values)
    assert CPF not in str(caught.value)
    assert Person.objects.count() == 0


# ---- blind indexes


def test_people_are_found_by_their_index_within_their_company(people: Any) -> None:
    mine, theirs = a_person(), a_person(company="other")
    assert mine.cpf_index != theirs.cpf_index
    for spelling in (CPF, "52998224725", "529982247-25"):
        wanted = index_of(Person, "cpf_index", spelling, "acme")
        assert Person.objects.get(cpf_index=wanted).pk == mine.pk


def test_the_index_follows_its_column(people: Any) -> None:
    person = a_person()
    person.cpf = "111.444.777-35"
    person.save()
    again = Person.objects.get(pk=person.pk)
    assert again.cpf_index == index_of(Person, "cpf_index", "11144477735", "acme")
    again.cpf = None
    again.save()
    assert stored(again, "cpf_index") is None


def test_an_index_is_not_searched_by_the_value_itself(people: Any) -> None:
    with pytest.raises(FieldError, match="takes an index"):
        Person.objects.filter(cpf_index=CPF).count()
    with pytest.raises(FieldError, match="say the tenant"):
        index_of(Person, "cpf_index", CPF)
    with pytest.raises(FieldError, match="is no BlindIndexField"):
        index_of(Person, "company", CPF)


def test_spellings_become_one() -> None:
    assert normalise_document(" 12.abc.345/01DE-35 ") == "12ABC34501DE35"
    assert normalise_email(" User@Example.com ") == "user@example.com"


# ---- declarations


def errors(**fields: Any) -> list[str]:
    with isolate_apps("tests.specimens"):
        meta = type("Meta", (), {"app_label": "specimens"})
        declared = type(
            "Declared", (models.Model,), {"__module__": __name__, "Meta": meta, **fields}
        )
        return [str(message.id) for message in declared.check()]  # type: ignore[attr-defined]


def test_a_row_without_a_key_before_its_insert_cannot_be_bound_to() -> None:
    assert errors(secret=EncryptedTextField()) == ["jobs.fields.E003"]
    own = models.UUIDField(primary_key=True, default=uuid.uuid4)
    assert errors(id=own, secret=EncryptedTextField()) == []
    given_key = models.CharField(primary_key=True, max_length=9)
    assert errors(id=given_key, secret=EncryptedTextField()) == []


def test_wrong_options_are_found() -> None:
    own = models.UUIDField(primary_key=True, default=uuid.uuid4)
    wrong = {
        "jobs.fields.E001": EncryptedTextField(tenant_field="compny"),
        "jobs.fields.E002": EncryptedTextField(unique=True),
        "jobs.fields.E004": BlindIndexField("cfp"),
    }
    for found, field in wrong.items():
        assert errors(id=own.clone(), secret=field) == [found]


def test_a_value_without_a_row_has_no_place(people: Any) -> None:
    field: Any = Person._meta.get_field("cpf")
    with pytest.raises(SealError, match="no primary key yet"):
        field.place(Person(id=None, company="acme"))
    assert a_person(id=None).pk is not None


@pytest.mark.parametrize(
    "field",
    [
        EncryptedTextField(),
        EncryptedTextField(tenant_field="company", null=True, editable=True),
        EncryptedJSONField(default=dict),
        BlindIndexField("cpf", tenant_field="company", normalise=normalise_email),
        BlindIndexField("cpf", unique=True, purpose="p", null=False),
    ],
)
def test_fields_survive_migrations(field: Any) -> None:
    _, path, args, kwargs = field.deconstruct()
    assert path.startswith("jobs.fields.")
    again = type(field)(*args, **kwargs)
    assert again.deconstruct()[1:] == (path, args, kwargs)
    assert (again.null, again.unique) == (field.null, field.unique)


def test_keys_are_asked_for_when_a_value_is(people: Any, settings: Any) -> None:
    person = a_person()
    settings.JOBS = vault.ONLY_NEW
    with pytest.raises(SealError, match="key 'old', which JOBS"):
        _ = Person.objects.get(pk=person.pk).cpf
