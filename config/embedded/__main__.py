"""Look at the shared servers, or stop them.

python -m config.embedded status    exit code 0 when they run, 3 when they do not
python -m config.embedded stop      exit code 0 when they run no more
"""

import argparse
import sys
from pathlib import Path

from config.embedded import client
from config.embedded.errors import EmbeddedError

NOT_RUNNING = 3


def status() -> int:
    answer = client.call({"do": "status"})
    if answer is None:
        say("not running")
        return NOT_RUNNING
    say(f"supervisor: pid {answer['supervisor']}, used by {answer['users']} connections")
    for kind, server in sorted(answer["servers"].items()):
        say(f"{kind}: pid {server['pid']}, {server['url']}, log {server['log']}")
    return 0


def stop() -> int:
    say("not running" if client.call({"do": "stop"}) is None else "stopped")
    return 0


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m config.embedded", description=f"The servers of {Path.cwd()}"
    )
    parser.add_argument("action", choices=["status", "stop"])
    try:
        return {"status": status, "stop": stop}[parser.parse_args().action]()
    except EmbeddedError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
