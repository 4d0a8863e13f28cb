"""Acts made of the declarations of verbs: a button, a form and a confirmation for each."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_lazy

from jobs.admin.actions import Act, Reason
from jobs.admin.fields import field_of
from jobs.operate import verbs
from jobs.operate.verbs import Verb


def offered(acts: Sequence[Act], nouns: Sequence[str], *, new: bool) -> list[Act]:
    """Return the acts whose verbs are declared, and one for each other verb of the nouns.

    A verb of the noun that is about something else, as sending a delivery of a webhook again is,
    belongs to the page of that.
    """
    found = [act for act in acts if act.is_offered]
    done = {act.verb for act in acts}
    of_rows = {verb.target.kind for act in acts if (verb := verbs.find(act.verb))}
    for noun in nouns:
        found += [
            act_of(verb)
            for verb in verbs.of_noun(noun)
            if verb.name not in done
            and verb.is_new is new
            and (new or verb.target.kind in {*of_rows, noun})
        ]
    return found


def act_of(verb: Verb) -> Act:
    """Return the act of the verb, of its declaration alone, in the words of the catalogue."""
    label = capfirst(verb.action.replace("_", " "))
    return Act(
        verb.slug,
        gettext_lazy(f"{label}…"),
        consequences=lambda request, row: [gettext(verb.summary)],
        form=form_of(verb),
        verb=verb.name,
        submit=gettext_lazy(label),
        many=not any(one.is_required for one in verb.parameters),
    )


@functools.cache
def form_of(verb: Verb) -> type[Reason]:
    """Return a form for what people give to the verb."""
    asked = {part.name: field_of(part) for one in verb.parameters for part in one.parts}
    fields: dict[str, Any] = {name: one for name, one in asked.items() if one is not None}
    if verb.reason is None:
        fields["reason"] = None
    name = "".join(part.capitalize() for part in f"{verb.noun}_{verb.action}".split("_"))
    return type(f"{name}Form", (Reason,), fields)
