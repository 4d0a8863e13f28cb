"""The language in which jobs are asked for: ``state:failed kind:mail.* created<-2h -queue:slow``.

The admin, the API and the command line read the same one. See ``docs/searching.md``.
"""

from jobs.operate.query.keys import KEYS, Key
from jobs.operate.query.parser import parse
from jobs.operate.query.terms import Query, Term

__all__ = ["KEYS", "Key", "Query", "Term", "parse"]
