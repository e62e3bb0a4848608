"""What runs in the pod of chaoskit for somebody outside: chaoskit, and then a wait until its files are fetched."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from chaoskit.environments.kubernetes.harness_pod import HOME
from chaoskit.environments.kubernetes.returned_files import pack

#: Where chaoskit writes the files that go back, and the archive of them.
RESULTS, PACKED = f"{HOME}/results", f"{HOME}/results.tar"
#: Seconds that the pod waits for somebody who fetches its files.
WAIT = 600.0


def run_inside(
    words: Sequence[str],
    *,
    mark: str,
    program: Sequence[str] = ("chaoskit",),
    results: str = RESULTS,
    packed: str = PACKED,
    wait: float = WAIT,
) -> int:
    """Run chaoskit with these words, by the `program` that the image has for it; returns its exit code. After
    it, one line of the output has `mark` and the code. SIGTERM ends chaoskit, and after its end the wait."""
    Path(results).mkdir(parents=True, exist_ok=True)
    over = threading.Event()
    process = subprocess.Popen([*program, *words])

    def end(number: int, frame: object) -> None:
        over.set()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        code = process.wait()
        code = code if code >= 0 else 128 - code
        partial = Path(f"{packed}.partial")
        partial.write_bytes(pack(Path(results)))
        partial.rename(packed)
        print(f"\n{mark} {code}", flush=True)
        over.wait(wait)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code
