"""`NightRun`: what a night is besides a run of the battery: its plan, how much runs side by side, its summary, and its
pages."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.cli.output import complain, say
from chaoskit.errors import ChaoskitError, ExitCode, StoreError, UsageError

if TYPE_CHECKING:
    from chaoskit.engine.result import Result
    from chaoskit.engine.run_store import Store
    from chaoskit.job import Job
    from chaoskit.report.machine.page_target import PageTarget
    from chaoskit.studies.nights.findings import Findings
    from chaoskit.studies.nights.suite import Suite
    from chaoskit.studies.nights.suite_history import SuiteHistory

#: Names of GPUs among the resources of a pod end so: nvidia.com/gpu, amd.com/gpu.
GPU = "/gpu"
#: So many nights are read to find out what changed, how long experiments take, and for the index.
NIGHTS = 60


class NightRun:
    """What is particular to a night while `run.do` runs its experiments. `directory` is for files of this night."""

    def __init__(
        self, args: argparse.Namespace, directory: Path, target: PageTarget | None, begun: float
    ) -> None:
        self._args, self._directory, self._target = args, directory, target
        self._until = begun + 60 * args.minutes if args.minutes else None
        self._unrun: list[str] = []
        self._published = True

    @property
    def also(self) -> tuple[str, ...]:
        """Nothing: a night runs what the battery runs."""
        return ()

    def begin(self, job: Job, store: Store, names: Sequence[str]) -> list[str]:
        """Plan the night; returns options for pytest."""
        from chaoskit.cli import night_session
        from chaoskit.studies.nights.night_plan import NightPlan

        plan = NightPlan.of(history_of(store), names, job=job.text, until=self._until)
        night_session.write(plan, self._directory)
        return [f"--chaos-night={self._directory}"]

    def workers(self, job: Job, environment: str, *, experiments: int) -> str | None:
        """How many experiments run side by side, for pytest. Raises UsageError for GPUs that do not suffice."""
        return side_by_side(job, environment, gpus=self._args.gpus, wish=self._args.n, experiments=experiments)

    @property
    def is_over(self) -> bool:
        """Whether the budget is used up."""
        return self._until is not None and time.monotonic() >= self._until

    def end(self, results: Sequence[Result], suite: Suite | None, store: Store) -> None:
        """Say what did not run and what changed, and publish the pages."""
        from chaoskit.studies.nights.findings import Findings
        from chaoskit.studies.nights.night_plan import unrun

        out = sys.stderr if self._args.json == "-" else sys.stdout
        self._unrun = unrun(results)
        if self._unrun:
            ran = len(results) - len(self._unrun)
            budget = f"the budget of {self._args.minutes:g} min"
            say(f"{budget} sufficed for {ran} of {len(results)} experiments.", file=out)
            say(f"not run: budget: {', '.join(self._unrun)}", file=out)
            say("They come first next time.", file=out)
        found = Findings.of(history_of(store))
        if suite is not None:
            for line in changes(found):
                say(line, file=out)
        if self._target is not None:
            self._publish(suite, store, found, out)

    def exit_code(self, code: int) -> int:
        """The exit code of the night, from that of its experiments."""
        if code == ExitCode.PASS and not self._published:
            return ExitCode.INTERNAL
        if code == ExitCode.PASS and self._unrun and self._args.complete:
            return ExitCode.INCONCLUSIVE
        return code

    def _publish(self, suite: Suite | None, store: Store, found: Findings, out: Any) -> None:
        """Publish the pages. A failure is one line: it hides no verdict."""
        from chaoskit.report.html import nights_site

        assert self._target is not None
        self._published = False
        if suite is None:
            complain(f"nothing was published to {self._target}: the suite of this night could not be stored")
            return
        try:
            written = nights_site.publish(
                suite, self._target, store=store, findings=found, directory=self._directory / "pages"
            )
        except Exception as error:  # a bucket's client raises what it likes
            reason = str(error) if isinstance(error, ChaoskitError) else f"{type(error).__name__}: {error}"
            remedy = f": {todo}" if (todo := self._target.remedy(error)) else ""
            complain(f"the pages could not be published to {self._target} ({reason}){remedy}; the verdicts stay valid")
            return
        for line in written.troubles(store):
            complain(line)
        self._published = True
        say(f"pages: {self._target.address('index.html')}", file=out)


def history_of(store: Store) -> SuiteHistory:
    """The last nights of a store; suites that cannot be read are left out, and `chaoskit history` names them."""
    from chaoskit.studies.nights.archive import Archive
    from chaoskit.studies.nights.suite_history import SuiteHistory

    archive, found = Archive(store), []
    for path in archive.all()[-NIGHTS:]:
        try:
            found.append(archive.read(path))
        except StoreError:
            continue
    return SuiteHistory.of(found)


def changes(found: Findings) -> list[str]:
    """What changed in the last night, one line for each experiment; one line if it was the first, or nothing did."""
    from chaoskit.report.terminal.history_report import HEADS, turn_lines

    nights = found.history.nights
    if len(nights) < 2:
        return ["This is the first night: there is nothing to compare it with."]
    lines = []
    for turn in found.turns:
        if turn.since == len(nights) - 1:
            codes = f": {', '.join(turn.result.codes)}" if turn.result.codes else ""
            told = "; ".join(turn_lines(found, turn)[1:])
            lines.append(f"{HEADS[turn.kind][0]} {turn.track.name}{codes}{f' ({told})' if told else ''}")
    since = f"since the night of {nights[-2].when}"
    return [f"Changed {since}:", *(f"  {line}" for line in lines)] if lines else [f"No verdict changed {since}."]


def side_by_side(
    job: Job, environment: str, *, gpus: int | None, wish: str | None, experiments: int
) -> str | None:
    """How many experiments run side by side, for pytest: what `wish` says, else what fits on this machine, or with
    `gpus` into that many GPUs of the cluster, and never more; one in a cluster of which no number is given. Raises
    UsageError where GPUs cannot be counted or do not suffice."""
    from chaoskit.cli import parallelism

    if environment != "kubernetes":
        if gpus is not None:
            raise UsageError(
                f"--gpus counts the GPUs of pods (--env kubernetes), and this is --env {environment}: "
                "give -n, or leave it out"
            )
        return parallelism.chosen(wish, job.command, experiments=experiments)
    if gpus is None:
        return wish
    limits = _limits(job)
    node = sum(whole(name, count) for name, count in limits.items() if name.endswith(GPU))
    if not node:
        raise UsageError(
            "--gpus needs the number of GPUs of a pod: write resources = {limits = {\"nvidia.com/gpu\" = \"8\"}} into "
            "[tool.chaoskit.kubernetes], or the same limits into the job template"
        )
    one = node * job.nodes.most
    if one > gpus:
        raise UsageError(f"--gpus {gpus} is too few: one experiment takes {one} ({job.nodes.most} nodes of {node})")
    most = min(gpus // one, experiments)
    if wish is not None and wish.isdecimal():
        most = min(most, max(1, int(wish)))
    return None if most <= 1 else str(most)


def _limits(job: Job) -> Mapping[str, str]:
    """The resource limits of a pod: those of the job template if there is one, else those of the settings."""
    from chaoskit.environments.kubernetes.job_template import of_place

    template = of_place(job.cluster)
    if template is not None:
        return (template.container.get("resources") or {}).get("limits") or {}
    return (job.cluster.resources if job.cluster else {}).get("limits", {})


def whole(name: str, count: str) -> int:
    """A number of GPUs. Raises UsageError."""
    if not str(count).isdecimal():
        raise UsageError(f"resources: {name} must be a whole number, not {count!r}")
    return int(count)
