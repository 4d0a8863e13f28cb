"""Uploads of documents: every confirmed file ends ready to be searched, or failed with a reason."""
