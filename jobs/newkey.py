"""``python -m jobs.newkey``: a new key for JOBS["KEYS"] or JOBS["INDEX_KEY"]."""

import base64
import os
import sys

from jobs.keyring import KEY_BYTES

if __name__ == "__main__":
    sys.stdout.write(base64.urlsafe_b64encode(os.urandom(KEY_BYTES)).decode() + "\n")
