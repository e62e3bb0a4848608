"""Runs small programs under the probe, without a harness, and reads back what it recorded."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from chaoskit.history import History

SITE = Path(__file__).resolve().parents[2] / "chaoskit" / "probe" / "site"


class Probed:
    """One program's run: its exit code, output and history."""

    def __init__(self, run_dir, result):
        self.run_dir = run_dir
        self.code = result.returncode
        self.output = result.stdout + result.stderr
        self.history = History.read(run_dir)

    @property
    def life(self):
        """Rank 0 of the only incarnation."""
        return self.history.incarnations[0].ranks[0]

    def events(self, kind):
        """Every event of a kind, of all processes."""
        from chaoskit.events import Event, read_events

        files = sorted((self.run_dir / "events").glob("*.jsonl"))
        return [e for path in files for e in read_events(path) if isinstance(e, Event) and e.kind == kind]


@pytest.fixture
def probed(tmp_path):
    """Call it with a program's text; `command` replaces `python FILE`, `env` adds variables."""

    def run(text, *, command=(sys.executable, "{file}"), env=None, probe=True):
        run_dir = tmp_path / f"run-{len(list(tmp_path.glob('run-*')))}"
        for name in ("events", "logs", "out"):
            (run_dir / name).mkdir(parents=True)
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(text))
        told = {"CHAOSKIT_RUN": str(run_dir), "CHAOSKIT_OUT": str(run_dir / "out")} if probe else {}
        path = os.pathsep.join([str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])])
        result = subprocess.run(
            [word.replace("{file}", str(file)) for word in command],
            env={**os.environ, "OUT": str(run_dir / "out"), **told, "PYTHONPATH": path, **(env or {})},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Probed(run_dir, result)

    return run
