"""The small pure parts: ids, names, fingerprints, the board, queue weights, ends of processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from argparse import ArgumentTypeError
from collections import Counter
from itertools import islice
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.cli.verb import positive_int, weighted_queues
from jobs.engine import board as boards
from jobs.engine.board import LOST, UNOPENED, Board, StopReason
from jobs.engine.executor import _weighted_orders
from jobs.engine.process import exit_description
from jobs.engine.rq import parse_ids
from jobs.fingerprints import fingerprint
from jobs.ids import uuid7
from jobs.names import label_problem, name_problem

# ---- Ids


def test_ids_rise_within_a_process_and_carry_the_time() -> None:
    before = time.time_ns() // 1_000_000
    made = [uuid7() for _ in range(5000)]
    after = time.time_ns() // 1_000_000
    assert made == sorted(made) and len(set(made)) == 5000
    assert {(i.version, i.variant) for i in made} == {(7, "specified in RFC 4122")}
    assert before <= made[0].int >> 80 <= made[-1].int >> 80 <= after + 2


def test_ids_rise_when_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    first = uuid7()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert first < uuid7() < uuid7()


def test_threads_share_the_order() -> None:
    made: list[UUID] = []
    lock = threading.Lock()

    def make() -> None:
        mine = [uuid7() for _ in range(500)]
        assert mine == sorted(mine)
        with lock:
            made.extend(mine)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({i.int >> 64 for i in made}) == len(made) == 2000


@given(st.lists(st.one_of(st.binary(max_size=40), st.uuids().map(lambda u: str(u).encode()))))
def test_only_ids_in_their_usual_spelling_are_taken_from_redis(raw: list[bytes]) -> None:
    found = list(parse_ids(raw))
    assert [str(i).encode() for i in found] == [item.lower() for item in raw if _is_id(item)]


def _is_id(item: bytes) -> bool:
    try:
        return len(item) == 36 and str(UUID(item.decode())).encode() == item.lower()
    except ValueError:
        return False


# ---- Names


@given(st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:\-]{0,119}", fullmatch=True))
def test_a_name_of_the_grammar_is_no_problem(name: str) -> None:
    assert name_problem(name) == ""


@pytest.mark.parametrize(
    "name", ["", ".", "-a", ":a", "a b", "a/b", "ä", "a\n", "a\0", "a" * 121, 1, None]
)
def test_another_name_is_a_problem(name: Any) -> None:
    assert name_problem(name)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=120))
def test_a_label_may_be_any_one_line_of_text(text: str) -> None:
    assert label_problem(text) == ""


@pytest.mark.parametrize(
    "text", ["a\n", "\t", "\x7f", "\x85", "\u2028", "\ud800", "a" * 121, 1, None]
)
def test_another_label_is_a_problem(text: Any) -> None:
    assert label_problem(text)


# ---- Fingerprints

TRACE = 'File "a.py", line 1, in f\nFile "b.py", line {}, in g\n'


def test_numbers_ids_and_texts_do_not_matter() -> None:
    messages = [
        f"order {i} of '{name}' at 0x{i:x} not in \"{name}\" {uuid4()} {i:032x}"
        for i, name in enumerate(("ann", "bob", ""), 7)
    ]
    assert len({fingerprint("E", m, TRACE.format(i)) for i, m in enumerate(messages)}) == 1


def test_class_words_and_place_matter() -> None:
    place = TRACE.format(1)
    marks = {
        fingerprint("E", "gone", place),
        fingerprint("F", "gone", place),
        fingerprint("E", "late", place),
        fingerprint("E", "gone", place.replace("in g", "in h")),
        fingerprint("E", "gone"),
    }
    assert len(marks) == 5 and {len(mark) for mark in marks} == {16}


@given(st.text(), st.text(), st.text())
def test_every_text_has_a_fingerprint(error: str, message: str, trace: str) -> None:
    assert len(fingerprint(error, message, trace)) == 16


# ---- The board


def test_a_slot_shows_its_job_until_it_ends() -> None:
    board, owner, job, token = Board(2, 3), uuid4(), uuid4(), uuid4()
    board.assign(1, owner)
    assert (board.owner(1), board.lease_until(1), list(board.running(1))) == (owner, UNOPENED, [])
    seq = board.begin(1, 2, job, token, 4, 10.0)
    [shown] = board.running(1)
    assert (shown.slot, shown.seq, shown.job_id, shown.token) == (2, seq, job, token)
    assert (shown.attempt, shown.stop) == (4, StopReason.NONE)
    assert shown.deadline == pytest.approx(shown.started + 10)
    assert 0 <= boards.now() - shown.started < 60
    assert (board.busy(1), board.busy(0), list(board.running(0))) == (1, 0, [])
    board.end(1, 2)
    assert (board.busy(1), list(board.running(1))) == (0, [])


def test_a_stop_reaches_the_job_it_was_meant_for_alone() -> None:
    board = Board(1, 2)
    first = board.begin(0, 0, uuid4(), uuid4(), 1, 1.0)
    board.stop(0, 0, first, StopReason.TIMEOUT)
    board.stop(0, 0, first, StopReason.SHUTDOWN)
    assert board.stop_reason(0, 0, first) is StopReason.TIMEOUT, "the first reason stays"
    board.end(0, 0)
    second = board.begin(0, 0, uuid4(), uuid4(), 1, 1.0)
    assert second == first + 1
    assert board.stop_reason(0, 0, second) is StopReason.NONE
    assert next(board.running(0)).stop is StopReason.NONE
    board.stop(0, 0, first, StopReason.CANCELLED)
    assert board.stop_reason(0, 0, second) is StopReason.NONE, "a late stop hits nobody"
    other = board.begin(0, 1, uuid4(), uuid4(), 1, 1.0)
    board.stop(0, 1, other, StopReason.CANCELLED)
    assert [shown.stop for shown in board.running(0)] == [StopReason.NONE, StopReason.CANCELLED]
    assert StopReason.LEASE_LOST.word == "lease_lost"


def test_a_new_owner_finds_a_blank_part_and_no_old_stop() -> None:
    board = Board(2, 1)
    board.assign(0, uuid4())
    kept = board.begin(1, 0, uuid4(), uuid4(), 1, 1.0)
    seq = board.begin(0, 0, uuid4(), uuid4(), 1, 1.0)
    board.set_lease(0, 5.0)
    board.assign(0, owner := uuid4())
    assert (board.owner(0), board.busy(0), board.lease_until(0)) == (owner, 0, UNOPENED)
    assert board.begin(0, 0, uuid4(), uuid4(), 1, 1.0) > seq
    assert next(board.running(1)).seq == kept


def test_leases_and_beats_are_each_executors_own() -> None:
    board = Board(3, 1)
    board.set_lease(1, LOST)
    board.set_lease(2, 7.5)
    board.beat(2)
    assert [board.lease_until(i) for i in range(3)] == [0.0, LOST, 7.5]
    assert board.last_beat(2) > 0 == board.last_beat(1)


def test_the_board_is_shared_by_fork() -> None:
    board, job = Board(1, 1), uuid4()
    pid = os.fork()
    if pid == 0:
        board.begin(0, 0, job, uuid4(), 3, 5.0)
        os._exit(0)
    os.waitpid(pid, 0)
    [shown] = board.running(0)
    assert (shown.job_id, shown.attempt) == (job, 3)


# ---- Queues and their weights


@pytest.mark.parametrize(
    ("text", "queues"),
    [
        ("email", (("email", 1),)),
        ("email,default:2", (("email", 1), ("default", 2))),
        (" email , default:2 ", (("email", 1), ("default", 2))),
        ("mail:eu:3,mail:us", (("mail:eu", 3), ("mail:us", 1))),
        ("a.b:1000", (("a.b", 1000),)),
        ("7", (("7", 1),)),
    ],
)
def test_queues_with_weights(text: str, queues: Any) -> None:
    assert weighted_queues(text) == queues


@pytest.mark.parametrize(
    "text",
    ["", ",", "a,", "a b", "a:0", "a:00", "a:1001", "a:99999999999", "a,a", "a:2,a", ":2", "ä"],
)
def test_wrong_queues_are_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        weighted_queues(text)


@given(st.dictionaries(st.text("abcdef", min_size=1), st.integers(1, 20), min_size=1, max_size=5))
def test_each_queue_comes_first_as_often_as_its_weight_says(weights: dict[str, int]) -> None:
    total = sum(weights.values())
    orders = list(islice(_weighted_orders(tuple(weights.items())), total))
    assert all(sorted(order) == sorted(weights) for order in orders)
    if len(weights) > 1:
        assert Counter(order[0] for order in orders) == weights


def test_heavy_queues_do_not_come_in_blocks() -> None:
    firsts = [o[0] for o in islice(_weighted_orders((("a", 3), ("b", 2))), 10)]
    assert "aaa" not in "".join(firsts) and "bb" not in "".join(firsts)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "x", "1e3"])
def test_a_count_is_a_positive_whole_number(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=r"whole number|at least 1"):
        positive_int(text)
    assert positive_int("12") == 12


# ---- How processes end


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "exited with code 0"),
        (3 << 8, "exited with code 3"),
        (255 << 8, "exited with code 255"),
        (signal.SIGKILL, "was killed by SIGKILL"),
        (signal.SIGSEGV | 0x80, "was killed by SIGSEGV"),
        (40, "was killed by signal 40"),
    ],
)
def test_a_wait_status_in_words(status: int, words: str) -> None:
    assert exit_description(status) == words
