"""Fields of forms that are made of the declared parameters of verbs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.utils.functional import lazy
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin.components import pretty
from jobs.operate.parameters import Parameter

LARGEST = 100_000
"""This many characters of JSON can be edited on a page."""
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


class When(forms.DateTimeField):
    """A moment, in the reader's time zone."""

    def __init__(self, **given: Any) -> None:
        given.setdefault("required", False)
        widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")
        super().__init__(widget=widget, **given)


class JsonText(forms.CharField):
    """A text that is JSON; its value is what it says."""

    def __init__(self, **given: Any) -> None:
        given.setdefault("max_length", LARGEST)
        widget = forms.Textarea(attrs={"rows": 10, "class": "jd-mono", "spellcheck": "false"})
        super().__init__(widget=widget, **given)

    def prepare_value(self, value: Any) -> Any:
        return value if value is None or isinstance(value, str) else pretty(value, LARGEST)

    def clean(self, value: Any) -> Any:
        text = str(super().clean(value) or "").strip()
        if not text:
            return None
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(
                _("This is no JSON: %(error)s") % {"error": error}
            ) from None


class Day(forms.DateField):
    """A date."""

    def __init__(self, **given: Any) -> None:
        super().__init__(widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"), **given)


class Clock(forms.TimeField):
    """A time of day."""

    def __init__(self, **given: Any) -> None:
        super().__init__(widget=forms.TimeInput(attrs={"type": "time"}), **given)


class Length(forms.FloatField):
    """A length of time, typed as a number of units."""

    def __init__(self, *, unit: timedelta = SECOND, **given: Any) -> None:
        self.unit = unit
        super().__init__(**given)

    def prepare_value(self, value: Any) -> Any:
        count = value / self.unit if isinstance(value, timedelta) else value
        return int(count) if isinstance(count, float) and count.is_integer() else count

    def clean(self, value: Any) -> Any:
        count = super().clean(value)
        try:
            return None if count is None else count * self.unit
        except OverflowError:
            raise forms.ValidationError(capfirst(_("is too long"))) from None


class Several(forms.CharField):
    """Several values of one type, separated by commas or line breaks; None where there are none."""

    def __init__(self, *, kind: Any = str, **given: Any) -> None:
        self.kind = kind
        super().__init__(max_length=20_000, **given)

    def prepare_value(self, value: Any) -> Any:
        if value is None or isinstance(value, str):
            return value
        between = "\n" if isinstance(self.widget, forms.Textarea) else ", "
        return between.join(str(one) for one in value)

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        typed = text if isinstance(text, str) else ""
        words = [one.strip() for one in typed.replace(",", "\n").splitlines()]
        found = [self._typed(word) for word in words if word]
        if not found and self.required:
            raise forms.ValidationError(self.error_messages["required"])
        return found or self.empty_value

    def _typed(self, word: str) -> Any:
        try:
            return self.kind(word) if self.kind in (int, float, UUID) else word
        except ValueError:
            return word  # the verb says what is wrong with it


_FIELDS: dict[Any, Callable[..., forms.Field]] = {
    int: forms.IntegerField,
    float: forms.FloatField,
    datetime: When,
    date: Day,
    time: Clock,
    UUID: forms.UUIDField,
    dict: JsonText,
    Any: JsonText,
}
Form = Any
"""A ``Reason``, with its ``row`` and its ``request``."""


def _always(form: Form) -> bool:
    return True


def _never(form: Form) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Words:
    """How a form asks for a parameter, whose type, choices and bounds are those of its declaration.

    What is a function here is called with the form, which has its ``row`` and its ``request``.
    """

    label: Any
    help: Any = ""
    initial: Any = None
    """What stands there at first, or a function that returns it, instead of the default."""
    choices: Mapping[Any, Any] | Callable[[Form], Mapping[Any, Any] | None] | None = None
    """The labels of what can be chosen; for a text also what that is, where not everything is."""
    widget: Any = None
    empty: Any = None
    """What is given where the field is left empty; None: nothing, so that the verb's default or
    what the row has holds."""
    unit: timedelta = SECOND
    """Of lengths of time."""
    shown: Callable[[Form], bool] = _always
    why_not: Callable[[Form], Any] = _never
    """Why it cannot be changed; nothing where it can."""


def field_of(
    parameter: Parameter, words: Words | None = None, form: Form = None
) -> forms.Field | None:
    """Return the field of a form for the parameter; None where forms cannot ask for it.

    Without words of its own it is called as it is declared, in the words of the catalogue.
    """
    if parameter.is_rest:
        return None
    is_required = parameter.is_required and not parameter.is_optional
    how: dict[str, Any] = {"required": is_required, "initial": None}
    if not parameter.is_required:
        how["initial"] = parameter.default
    if words is None:
        how |= {
            "label": gettext_lazy(capfirst(parameter.name.replace("_", " "))),
            "help_text": _help(parameter),
        }
        return _made(parameter, how, SECOND, None, None)
    how |= {"label": words.label, "help_text": words.help}
    if (initial := _initial(parameter, words, form)) is not None:
        how["initial"] = initial
    how |= {} if words.widget is None else {"widget": words.widget}
    how |= {} if words.empty is None else {"required": False}
    choices = words.choices(form) if callable(words.choices) else words.choices
    made = _made(parameter, how, words.unit, choices, words.empty)
    if made is not None and (why_not := words.why_not(form)):
        made.disabled, made.help_text = True, why_not
    return made


def _made(
    parameter: Parameter,
    how: dict[str, Any],
    unit: timedelta,
    labels: Mapping[Any, Any] | None,
    empty: Any,
) -> forms.Field | None:
    if parameter.type is bool:
        return forms.BooleanField(**{**how, "required": False})
    if parameter.is_many:
        if labels is None:
            return Several(kind=parameter.type, empty_value=empty, **how)
        options = {"choices": list(labels.items()), "coerce": parameter.type}
        return forms.TypedMultipleChoiceField(**options, **how)
    if parameter.choices or labels is not None:
        return _choice(parameter, how, labels or {}, empty)
    if parameter.type is str:
        longest = parameter.bound("max_length") or 2000
        return forms.CharField(max_length=longest, empty_value=empty, **how)
    if parameter.type is timedelta:
        return Length(unit=unit, **how)
    if parameter.type in (int, float):
        how |= {"min_value": parameter.bound("ge"), "max_value": parameter.bound("le")}
    made = _FIELDS.get(parameter.type)
    return made(**how) if made is not None else None


def _choice(
    parameter: Parameter, how: dict[str, Any], labels: Mapping[Any, Any], empty: Any
) -> forms.Field:
    known: Sequence[Any] = parameter.choices or tuple(labels)
    has_one = how["required"] or how["initial"] in known
    named = [(one, labels.get(one, one)) for one in known]
    choices = named if has_one else [("", ""), *named]
    return forms.TypedChoiceField(choices=choices, empty_value=empty, **how)


def _initial(parameter: Parameter, words: Words, form: Form) -> Any:
    """Return what the words say, or what the row has of a form that changes it."""
    if words.initial is not None:
        return words.initial(form) if callable(words.initial) else words.initial
    if getattr(form, "of_row", False):
        return getattr(form.row, parameter.name, None)
    return None


def _help(parameter: Parameter) -> Any:
    parts = [gettext_lazy(parameter.help)] if parameter.help else []
    parts += [gettext_lazy("seconds")] if parameter.type is timedelta else []
    parts += [gettext_lazy("separated by commas")] if parameter.is_many else []
    return _joined(parts)


def _say(parts: Sequence[Any]) -> str:
    return capfirst("; ".join(str(one) for one in parts))


_joined = lazy(_say, str)

SCOPE = Words(
    gettext_lazy("Scope"),
    gettext_lazy("queue:<name>, kind:<kind>, tenant:<tenant>, key:<key> or limit_key:<key>"),
)
LINES = forms.Textarea(attrs={"rows": 2})
