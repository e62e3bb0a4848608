"""Runs small programs under the probe, without a harness, and reads back what it recorded."""

import os
import sys
import textwrap

import pytest

from chaoskit.analysis.record.history import History
from tests.probe.started import WITH_PROBE, Started


class Probed:
    """One program's run: its exit code, output and history."""

    def __init__(self, run_dir, code, output):
        self.run_dir = run_dir
        self.code = code
        self.output = output
        self.history = History.read(run_dir)

    @property
    def life(self):
        """Rank 0 of the only incarnation."""
        return self.history.incarnations[0].ranks[0]

    def events(self, kind):
        """Every event of a kind, of all processes."""
        from chaoskit.protocol.events import Event, read_events

        files = sorted((self.run_dir / "events").glob("*.jsonl"))
        return [e for path in files for e in read_events(path) if isinstance(e, Event) and e.kind == kind]


@pytest.fixture
def probed(tmp_path):
    """Call it with a program's text; `command` replaces `python FILE`, `env` adds variables.

    A program is forked from a process that has imported torch, so the probe finds it imported already. With `cold` it
    is a fresh one, where `sitecustomize` starts the probe, which waits for the imports; without `probe` it always is.
    Tests that take `cold` for a parameter do both, and everything that is waited for is in one of them: torch,
    numpy.random, torch.distributed.checkpoint, safetensors.torch. Whatever else the hooks do, they do in forks.
    """

    def run(text, *, command=(sys.executable, "{file}"), env=None, probe=True, cold=False):
        run_dir = tmp_path / f"run-{len(list(tmp_path.glob('run-*')))}"
        for name in ("events", "logs", "out"):
            (run_dir / name).mkdir(parents=True)
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(text))
        command = [word.replace("{file}", str(file)) for word in command]
        told = {"CHAOSKIT_RUN": str(run_dir)} if probe else {}
        out = {"CHAOSKIT_OUT": str(run_dir / "out")}
        env = {**os.environ, **out, **told, "PYTHONPATH": WITH_PROBE, **(env or {})}
        cold = cold or not probe
        program = Started(command, env=env, cwd=tmp_path, log=run_dir / "output.txt", cold=cold)
        try:
            return Probed(run_dir, program.wait(timeout=120), program.output)
        finally:
            program.close()

    return run


@pytest.fixture(params=[True, False], ids=["cold", "warm"])
def cold(request):
    """For a test that is to see both a fresh process and a forked one."""
    return request.param
