"""The sub-commands of ``manage.py jobs``: one module each, named like its verb."""
