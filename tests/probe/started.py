"""`Started`: a program that runs. It is forked from a process that has imported torch, unless it must be a fresh one:
tests of the probe and of tinymodels start a hundred, and importing is nearly all of what a fresh one does."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from chaoskit.environments.launch.cold import ColdLauncher
from chaoskit.environments.launch.order import Order
from chaoskit.environments.launch.surroundings import PROBE_SITE
from chaoskit.environments.launch.warm import WarmLauncher
from chaoskit.environments.machine import processes

#: What a rank of tinymodels imports of installed packages: the parents of its runs under chaoskit serve here too.
MODULES = (
    *("torch._dynamo", "torch.distributed.checkpoint.state_dict", "torch.distributed.fsdp", "torch.profiler"),
    *("torch.utils.serialization.config", "numpy.ctypeslib", "numpy.random"),
    *("_distutils_hack", "mpmath", "sympy", "torchgen", "typing_extensions", "xxhash"),
)
#: The PYTHONPATH by which a fresh interpreter starts the probe, where CHAOSKIT_RUN is set.
WITH_PROBE = os.pathsep.join(filter(None, (PROBE_SITE, os.environ.get("PYTHONPATH"))))


class Started:
    """As much of `subprocess.Popen` as tests need; what the program says, on either stream, goes to `log`.

    Only names that begin with CHAOSKIT_, and those that torchrun sets, may differ in `env` from one program to the
    next: for others there would have to be another parent.
    """

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path, cold: bool = False
    ) -> None:
        self.log = log
        log.touch()
        launcher = ColdLauncher() if cold else WarmLauncher(MODULES, threads="1")
        self._launch = launcher.start(Order(command, env=env, cwd=cwd, log=log, run_id="of-a-test"))

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        end = self._launch.ended()
        return None if end is None else end.code

    def wait(self, timeout: float) -> int:
        """The exit code; raises TimeoutError if there is none after so many seconds."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"it still runs after {timeout:g} s; it said:\n{self.output}")
            ears = select.poll()
            ears.register(self._launch, select.POLLIN)
            ears.poll(left * 1000)
        return code

    def send_signal(self, signum: int) -> None:
        """To the program itself; nothing happens if it has gone."""
        processes.send(self._launch.process, signum)

    def kill(self) -> None:
        """As `subprocess.Popen.kill` does."""
        self.send_signal(signal.SIGKILL)

    def lines(self) -> Iterator[str]:
        """What it says, line by line, as it says it; until it has ended."""
        with self.log.open(errors="replace") as log:
            begun = ""
            while True:
                over = self.poll() is not None
                for part in log:
                    begun += part
                    if begun.endswith("\n"):
                        yield begun
                        begun = ""
                if over:
                    break
                time.sleep(0.001)
        if begun:
            yield begun

    @property
    def output(self) -> str:
        """All that it has said until now."""
        return self.log.read_text(errors="replace")

    def close(self) -> None:
        """Kill what still runs of it."""
        self._launch.close()
