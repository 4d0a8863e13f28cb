"""The hub: one reader of the feed for all listeners of a process.

A listener first reads the feed by himself, up to what the hub has in memory. In the one moment in
which nothing is missing between the two he is given over to the hub, which sends all that
follows. The feed is the truth; the bell only says when to look.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

from django.db import DatabaseError, InterfaceError

from jobs.engine import feed, rq, sql
from jobs.errors import FeedGone
from jobs.realtime.parcels import Item, Parcel, parcels
from jobs.realtime.questions import Question, View
from jobs.realtime.seats import Seat

log = logging.getLogger("jobs.realtime")
T = TypeVar("T")

MOST_LISTENERS = 5000
"""Listeners of one process."""
KEPT_EVENTS = 5000
KEPT_SIZE = 8 * 1024 * 1024
"""What the hub remembers for those who have almost caught up."""
QUEUE_SIZE = 1024 * 1024
"""Characters that wait for one listener before he is cut."""
LOOK = 1.0
"""Seconds between two looks into the feed while the bell works."""
LOOK_WITHOUT_BELL = 0.25
GAP = 0.1
"""Seconds from one look that found something to the next: many events, few messages."""
AT_A_STRETCH = 0.02
"""Seconds for which events are sent before the event loop turns to others."""
KEEP_ALIVE = 15.0
_PAGE = 1000


class Cut(Exception):
    """The listener gets nothing any more and may come again."""


class TooSlow(Cut):
    """More waits for the listener than is kept for him."""


class TooMany(Cut):
    """This process has as many listeners as it takes."""


class TooManyOfOne(TooMany):
    """The principal has as many sockets open as the channel allows."""


class Listener:
    """A listener for what happens; made by ``Hub.listen``."""

    def __init__(self, view: View, position: int) -> None:
        self.view, self.position = view, position
        self.error: Exception | None = None
        self._waiting: deque[Parcel] = deque()
        self._size = 0
        self._wake = asyncio.Event()

    def give(self, parcel: Parcel) -> bool:
        """The parcel waits for the listener; false where that is too much, and he is cut."""
        self._size += parcel.size
        if self._size > QUEUE_SIZE:
            self.cut(TooSlow("too slow"))
            return False
        self._waiting.append(parcel)
        self._wake.set()
        return True

    def cut(self, error: Exception) -> None:
        """The listener gets the reason after what is under way to it, and nothing else."""
        self.error = error
        self._waiting.clear()
        self._wake.set()

    async def next(self, timeout: float) -> Parcel | None:
        """What waits; None when nothing came. Raises why he was cut."""
        if not self._waiting and self.error is None:
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
        if self.error is not None:
            raise self.error
        if not self._waiting:
            return None
        parcel = self._waiting.popleft()
        self._size -= parcel.size
        return parcel


class Hub:
    """Of one event loop; reads only while somebody listens."""

    def __init__(self) -> None:
        self.position = 0
        self._told = 0
        """Up to here every listener has what he is shown."""
        self._floor = 0
        """Behind this position everything is in memory, up to ``position``."""
        self._kept: deque[Item] = deque()
        self._size = 0
        self._views: dict[View, set[Listener]] = {}
        self.count = 0
        self._places = Counter[str]()
        self._bell = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._live = ThreadPoolExecutor(1, "jobs-hub")
        self._back = ThreadPoolExecutor(3, "jobs-replay")

    async def listen(self, question: Question) -> AsyncGenerator[Parcel, None]:
        """What happens after ``since``, or from now on, in order and without a gap.

        The first parcel is empty and says where one begins; one that is empty also comes when
        nothing else does. Raises FeedGone or Cut.
        """
        if self.count >= MOST_LISTENERS:
            raise TooMany("too many listeners")
        for place, most in question.places:
            if self._places[place] >= most:
                raise _too_many(question, place)
        self.count += 1
        self._places.update(place for place, _ in question.places)
        view, listener = question.view, None
        seat = Seat(*question.seat) if question.seat else None
        try:
            if seat is not None and not await self._call(self._back, seat.take):
                raise _too_many(question, seat.name)
            await self._begin()
            start = self.position if question.since is None else question.since
            if not self._is_near(start):
                await self._read(self._back, start, view, 1)  # it has to be there
            yield Parcel((), start, view.channel)
            position = start
            while not self._is_near(position):
                page = await self._read(self._back, position, view, _PAGE)
                for parcel in parcels(map(Item, page), view, page.position, is_live=False):
                    yield parcel
                if seat is not None and seat.is_due:
                    await self._call(self._back, seat.keep)
                position = page.position
                if page.is_end and position >= self.position:
                    break
            # From here to the first await nobody else runs: nothing is lost or sent twice.
            listener = Listener(view, position)
            missed = [item for item in self._kept if item.event.position > position]
            position = max(position, self.position)
            listener.position = position
            self._views.setdefault(view, set()).add(listener)
            for parcel in parcels(missed, view, position, is_live=False):
                yield parcel
            while True:
                found = await listener.next(KEEP_ALIVE)
                if found is None:
                    found = Parcel((), max(self._told, position), view.channel)
                position = found.position
                yield found
                if seat is not None and seat.is_due:
                    await self._call(self._back, seat.keep)
        finally:
            self.count -= 1
            self._places -= Counter(place for place, _ in question.places)
            if listener is not None:
                self._forget(listener)
            if seat is not None:
                with suppress(RuntimeError):  # the hub has ended meanwhile
                    self._back.submit(seat.leave)
            if not self.count:
                self._rest()

    def ring(self) -> None:
        """Somebody says that there is something new."""
        self._bell.set()

    def end(self) -> None:
        """Nothing is read any more, and no thread is left."""
        self._rest()
        for pool in (self._live, self._back):
            pool.shutdown()

    def _is_near(self, position: int) -> bool:
        """Whether all that follows the position is in memory."""
        return self._floor <= position <= self.position

    def _forget(self, listener: Listener) -> None:
        members = self._views.get(listener.view, set())
        members.discard(listener)
        if not members:
            self._views.pop(listener.view, None)

    # ---- reading

    async def _begin(self) -> None:
        """The hub knows the end of the feed and reads on from there."""
        if self._reader is None:
            head = await self._call(self._live, feed.feed_head)
            if self._reader is None:  # of several who come at once, one begins
                self._start_at(head)
                self._reader = asyncio.create_task(self._run(), name="jobs-hub")

    def _start_at(self, position: int) -> None:
        self.position = self._told = self._floor = position
        self._kept.clear()
        self._size = 0

    def _rest(self) -> None:
        """Nobody listens: nothing is read, and no connection is held."""
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None
        self._live.submit(sql.close)

    async def _run(self) -> None:
        loop, over = asyncio.get_running_loop(), threading.Event()
        state = {"heard": False}

        def hear(works: bool) -> None:
            state["heard"] = works
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._bell.set)

        thread = threading.Thread(target=rq.hear_rings, args=(over, hear), daemon=True)
        thread.start()
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK if state["heard"] else LOOK_WITHOUT_BELL):
                        await self._bell.wait()
                self._bell.clear()
                if await self._look():
                    await asyncio.sleep(GAP)
        finally:
            over.set()

    async def _look(self) -> bool:
        """Send what is new in the feed; return whether there was something."""
        before = self.position
        try:
            page, items = await self._call(self._live, partial(_new, self.position))
        except FeedGone as gone:
            log.warning("the hub starts over: %s", gone)
            self._cut_all(gone)
            self._start_at(gone.head)
            return True
        except (DatabaseError, InterfaceError) as error:
            log.warning("the hub waits for the database: %s", error)
            return True
        await self._tell(page, items)
        if not page.is_end:
            self._bell.set()
        return self.position > before

    async def _tell(self, page: feed.Events, items: list[Item]) -> None:
        before, self.position = self.position, page.position
        self._keep(items)
        # Whoever begins to listen from here on finds the items among those that are kept.
        begun = time.monotonic()
        for view, members in list(self._views.items()):
            if time.monotonic() - begun > AT_A_STRETCH:
                await asyncio.sleep(0)
                begun = time.monotonic()
            common = list(parcels(items, view, page.position))
            for listener in list(members):
                found = common
                if listener.position > before:  # he has read further than the hub
                    rest = [i for i in items if i.event.position > listener.position]
                    found = list(parcels(rest, view, page.position))
                if not all(map(listener.give, found)):
                    members.discard(listener)
        self._told = self.position

    def _keep(self, items: list[Item]) -> None:
        for item in items:
            self._kept.append(item)
            self._size += len(item.text)
        while len(self._kept) > KEPT_EVENTS or self._size > KEPT_SIZE:
            gone = self._kept.popleft()
            self._size -= len(gone.text)
            self._floor = gone.event.position

    def _cut_all(self, error: Exception) -> None:
        for members in self._views.values():
            for listener in members:
                listener.cut(error)
        self._views.clear()

    async def _read(
        self, pool: ThreadPoolExecutor, since: int, view: View, limit: int
    ) -> feed.Events:
        def read() -> feed.Events:
            return feed.feed(since, view.topics or None, view.tenants_to_read, limit)

        return await self._call(pool, read)

    async def _call(self, pool: ThreadPoolExecutor, act: Callable[[], T]) -> T:
        """The act's answer, from a thread with a connection of its own."""

        def acted() -> T:
            is_over = True
            try:
                answer = act()
                is_over = pool is not self._live  # others read seldom, and hold no connection
                return answer
            finally:
                if is_over:
                    sql.close()

        return await asyncio.get_running_loop().run_in_executor(pool, acted)


def _too_many(question: Question, place: str) -> TooMany:
    if question.seat is None or question.seat[0] != place:
        return TooMany("too many listeners")
    return TooManyOfOne(f"at most {question.seat[1]} sockets at a time: close another one first")


def _new(since: int) -> tuple[feed.Events, list[Item]]:
    """What follows in the feed, put into words: the event loop has other things to do."""
    page = feed.feed(since, None, None, _PAGE)
    return page, [Item(event) for event in page]


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """The hub of the running event loop."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())
