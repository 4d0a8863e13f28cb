"""Acts that are no verbs: who acts, permissions of the app's own, rows of the audit.

What people do with an app's own things is declared as a verb, see ``jobs.verbs``.

::

    acts.add_permissions("emailgw", {"reveal_recipient": _("Can see recipients in clear")})

    with acts.on("email.reveal", kind="email", id=pk, permission="emailgw.reveal_recipient",
                 by=by, reason=reason, needs_reason=True, place=acts.Place(tenant)) as act:
        act.note(field="to")            # never a value that is protected

An app's permission is called ``app.codename``, as Django calls it. A user holds it by Django's
own permissions, superusers and the project's own code hold all, an API key what it was given.
``of_user(user, via="mail")`` says what a user may do and see where there is no request.
"""

from __future__ import annotations

from jobs.operate.acts import Act, deny, on, settle
from jobs.operate.people import of_user
from jobs.operate.targets import Place
from jobs.principals import By, Principal, Scope, add_permissions, principal

__all__ = [
    "Act",
    "By",
    "Place",
    "Principal",
    "Scope",
    "add_permissions",
    "deny",
    "of_user",
    "on",
    "principal",
    "settle",
]
