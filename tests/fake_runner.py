"""A conftest.py for tests of the plugin and the command line: `chaoskit.engine.runner` runs nothing.

The name of the job's script says what happens; a check is the verdict that it will come to.
"""

import importlib.util
import os
import signal
import sys
import types
from pathlib import Path

import chaoskit
from chaoskit.engine.ruling import Ruling
from chaoskit.errors import (
    CheckFailed,
    ExitCode,
    Inconclusive,
    MissingCapability,
    ReferenceFailed,
    StoreError,
    UsageError,
)
from chaoskit.verdict import Outcome, merge


class Summary:
    resumed_from, last_valid, steps_lost, waited_seconds = 20, 30, 5, 3.0
    saved_seconds = sufficient_grace = None
    noticed_seconds, stopped_seconds, recovery_seconds = 1.0, 1.5, 2.5
    launch_seconds, step_seconds = 0.5, 0.02
    probe_errors = throughput = ()


class Launch:
    how = "cold"


class History:
    launches = (Launch(),)
    faults = ()
    window = None


class Run:
    summary = Summary()
    history = History()
    verdicts = ()
    reference = None
    ruling = None
    audited = False

    def __init__(self, run_dir, job, rule=None):
        self.dir, self.job, self.rule = run_dir, job, rule

    @property
    def outcome(self):
        return merge(verdict.outcome for verdict in self.verdicts)

    def judge(self, *checks):
        self.verdicts, self.ruling = checks, None
        return checks

    def verify(self, *checks):
        __tracebackhide__ = True
        self.judge(*checks)
        self.ruling = self.rule(self, checks) if self.rule else Ruling(checks)
        outcome = self.ruling.outcome
        if outcome is Outcome.FAIL:
            raise CheckFailed("not shown", verdicts=checks, run=str(self.dir))
        if outcome is Outcome.INCONCLUSIVE:
            raise Inconclusive("not shown", verdicts=checks, run=str(self.dir))
        return checks


class Runner:
    calls = 0
    rule = None

    def __init__(self, store, *, environment, experiment, progress, **options):
        self.store, self.progress, self.options = store, progress, options
        self.told = {"environment": environment, "experiment": experiment, **options}

    def reference(self, job):
        return self.told

    def run(self, job, *faults, storage=""):
        type(self).calls += 1
        self.progress.phase("launch 0")
        script = job.script or job.command[-1]
        if script == "crash.py":
            raise ReferenceFailed(f"it says: ZeroDivisionError ({self.calls})", run="/stored/control")
        if script == "lacking.py":
            raise MissingCapability("it needs CanFly", capability="CanFly", remedy="grow wings")
        if script == "misused.py":
            raise UsageError("there is no rank 7 in a job of 2")
        if script == "full.py":
            raise StoreError("the disk is full", exit_code=ExitCode.EXHAUSTED)
        if script == "killed.py":
            os.kill(os.getpid(), signal.SIGKILL)
        if script == "broken.py":
            raise ZeroDivisionError("of chaoskit's own")
        if script == "stopped.py":
            os.kill(os.getpid(), signal.SIGINT)
        return Run(self.store.new_run(job=job.to_json()), job, self.rule)


# Stored runs are read by a copy of what this stands in for.
spec = importlib.util.spec_from_file_location("real_runner", Path(chaoskit.__file__).parent / "engine" / "runner.py")
real = sys.modules["real_runner"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(real)
module = types.ModuleType("chaoskit.engine.runner")
module.Runner, module.Run, module.stored = Runner, real.Run, real.stored
sys.modules["chaoskit.engine.runner"] = module
# Nothing ran, so nothing can be put back.
putting_back = types.ModuleType("chaoskit.studies.putting_back")
putting_back.try_to_prove = lambda runner, run, codes=(): None
sys.modules["chaoskit.studies.putting_back"] = putting_back
