"""`NoticeBoard`: whether one node has been given notice, which its metadata service reads and the harness writes."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class PostedNotice:
    """One notice, with times of the clock on the wall: when it was `given`, and when the node `ends`. It has `started`
    once the job has said that the cloud need wait no longer."""

    given: float
    ends: float
    id: str = field(default_factory=lambda: str(uuid.uuid4()).upper())
    started: bool = False


class NoticeBoard:
    """The notice that stands, if any, and `changes`, how often it has changed. For use by several threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._notice: PostedNotice | None = None
        self._closed = False
        self.changes = 0

    @property
    def notice(self) -> PostedNotice | None:
        """The notice that stands."""
        return self._notice

    def post(self, *, seconds: float) -> PostedNotice:
        """Give notice: the node ends in so many seconds."""
        now = time.time()
        notice = PostedNotice(now, now + seconds)
        self._set(notice)
        return notice

    def withdraw(self) -> None:
        """Take the notice back."""
        self._set(None)

    def start(self, notice_id: str) -> bool:
        """Let the notice of this id start at once; whether it stands."""
        notice = self._notice
        if notice is None or notice.id != notice_id:
            return False
        if not notice.started:
            self._set(replace(notice, started=True))
        return True

    def wait(self, until: Callable[[], bool], seconds: float | None) -> None:
        """Wait until that is so, for so many seconds at most (None: for as long as it takes), or the end of the run."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or until(), seconds)

    def close(self) -> None:
        """End every wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _set(self, notice: PostedNotice | None) -> None:
        with self._changed:
            self._notice = notice
            self.changes += 1
            self._changed.notify_all()
