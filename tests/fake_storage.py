"""A storage that is none: it keeps count of its troubles, and a test says what requests a job would make.

storage = FakeStorage()
trouble = storage.fail_storage(Trouble(error="EIO", times=1))
storage.ask("write", "checkpoints/a", size=10)
assert storage.storage_met(trouble)["count"] == 1
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaoskit.capabilities import InjectedIOError
from chaoskit.environments.fusefs.injected_errors import matches


class FakeStorage:
    """Requests are met by what meets them in a real one, at once: `ask` says the error, and never waits."""

    def __init__(self) -> None:
        self.troubles: dict[int, InjectedIOError] = {}
        self.mended: set[int] = set()
        self._met: dict[int, dict[str, Any]] = {}
        self._written: dict[int, int] = {}

    def fail_storage(self, trouble: InjectedIOError) -> int:
        number = len(self.troubles) + 1
        self.troubles[number] = trouble
        self._met[number] = {"count": 0, "operations": {}, "files": []}
        self._written[number] = 0
        return number

    def mend_storage(self, trouble: int) -> None:
        self.mended.add(trouble)

    def storage_met(self, trouble: int) -> Mapping[str, Any]:
        return self._met[trouble]

    def ask(self, kind: str, path: str, *, size: int = 0) -> str | None:
        """A request of the job; the error that it is answered with."""
        for number, trouble in self.troubles.items():
            met = self._met[number]
            if (
                number in self.mended
                or (trouble.operations and kind not in trouble.operations)
                or not matches(path, trouble.files)
                or met["count"] == trouble.times
            ):
                continue
            if self._written[number] + size <= trouble.after_bytes and self._written[number] < trouble.after_bytes:
                self._written[number] += size
                continue
            met["count"] += 1
            met["operations"][kind] = met["operations"].get(kind, 0) + 1
            met["files"].append(path)
            if trouble.error is not None:
                return trouble.error
        return None
