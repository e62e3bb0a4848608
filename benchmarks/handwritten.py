"""The honest yardstick: the battery as a good engineer would script it for one job, without chaoskit.

    python benchmarks/handwritten.py                        # everything, on two ranks of tinymodels
    python benchmarks/handwritten.py -k save --json FILE -- torchrun ... -m tinymodels.train --out {out}

It knows the trainer: sixty steps, a checkpoint every ten, metrics.jsonl, the log. Two uninterrupted runs that agree
are the reference of all experiments of one call. Each experiment launches the job, looks every few milliseconds
whether metrics or files show the moment, strikes, starts the command again until it ends with 0, and asks: was the
strike seen, did each launch resume from the newest good checkpoint, are all losses and the bytes of the model those
of the reference, is no process left? What was lost, it cannot tell.

The job is not edited. Two deeds cannot be done from outside (a rank's `exit(0)`, not-a-number in its forward pass):
there the first launch runs a subclass of the trainer. The disk error of `test_write_error` is a limit on the size of
the last rank's files, set on the living process until its save has failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TORCHRUN = str(Path(sys.executable).with_name("torchrun"))
COMMAND = [TORCHRUN, "--nproc-per-node", "2", "-m", "tinymodels.train", "--out", "{out}"]
RANKS, LAST = (0, 1), 1
STEPS, EVERY, EPOCH = 60, 10, 20  # EVERY: steps from checkpoint to checkpoint
MIDDLE = EPOCH + 15  # of the second epoch, between two checkpoints
RELAUNCHES, DEADLINE = 3, 120.0  # of one experiment; seconds, of one launch
MARK = "HANDWRITTEN_RUN"  # in the environment of all that a run starts: torchrun's ranks leave its process group

SABOTEUR = """
import os, sys
from tinymodels.train import Trainer, main

class Sabotaged(Trainer):
    def step(self, group):
        last = self.world.rank == self.world.size - 1
        if last and self.state.progress.step + 1 == int(os.environ["SABOTAGE_STEP"]):
            getattr(self, os.environ["SABOTAGE"])()
        return super().step(group)

    def exit(self):
        os._exit(0)

    def nan(self):
        def once(module, given, total):
            hook.remove()
            return total * float("nan")
        hook = self.model.register_forward_hook(once)

sys.exit(main(trainer=Sabotaged))
"""


class Failed(Exception):
    """The experiment did not go as it must; the message says what was seen."""


class TooLate(Failed):
    """The moment was over before the strike: nothing was tested."""


def need(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Failed(otherwise)


class Run:
    """One experiment: a fresh directory, and the command started in it as often as it takes."""

    def __init__(self, command: list[str], scratch: Path) -> None:
        self.scratch, self.out, self.mark = scratch, scratch / "out", uuid.uuid4().hex
        self.command = [word.replace("{out}", str(self.out)) for word in command]
        self.launches: list[subprocess.Popen[bytes]] = []
        self.logs: list[Path] = []
        self.expected: list[int | None] = []  # what each launch has to resume from
        self.damaged = 0  # the checkpoint that must be refused

    # Launching.

    def launch(self, command: list[str] | None = None, *, until: int = 0, **settings: str) -> Run:
        """Start the command, for the first time or again; return when step `until` is the next one."""
        self.expected.append(max((step for step in self.saved() if step != self.damaged), default=None))
        environment = {**os.environ, **settings, MARK: self.mark}
        self.logs.append(self.scratch / f"launch-{len(self.launches)}.log")
        with self.logs[-1].open("wb") as log:
            made = subprocess.Popen(command or self.command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        self.launches.append(made)
        self.deadline = time.monotonic() + DEADLINE
        if until:
            self.wait_for(lambda: max(losses(self.out), default=0) >= until - 1, f"step {until}")
        return self

    def sabotage(self, deed: str, *, step: int) -> None:
        """A launch in which the last rank does something to itself at this step; it has to fail."""
        script = self.scratch / "saboteur.py"
        script.write_text(SABOTEUR)
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        at = self.command.index("-m")
        command = [*self.command[:at], str(script), *self.command[at + 2 :]]
        self.launch(command, SABOTAGE=deed, SABOTAGE_STEP=str(step), PYTHONPATH=path)
        need(self.ended() != 0, f"the launch did not mind: {deed} at step {step}")

    def ended(self) -> int:
        """The exit code of the present launch."""
        try:
            return self.launches[-1].wait(max(0.0, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Failed(f"the launch hung: not ended after {DEADLINE:.0f} s") from None

    def finish(self) -> tuple[dict[int, str], bytes]:
        """Start the command again, as a scheduler would, until it ends with 0: the losses and the model."""
        relaunches = RELAUNCHES
        while (code := self.ended()) and relaunches:
            self.launch()
            relaunches -= 1
        need(code == 0, f"never came back: {self.logs[-1].read_text()[-200:]!r}")
        told = [re.search(r"resumed from \S*step-(\d+)", log.read_text()) for log in self.logs]
        resumed = [int(match[1]) if match else None for match in told]
        need(resumed == self.expected, f"resumed from {resumed} instead of {self.expected}")
        need(not dict(self.processes()), "processes are left")
        return losses(self.out), (self.out / "model.safetensors").read_bytes()

    def clean_up(self) -> None:
        """Kill whatever this run has started, ranks whose launcher is gone included."""
        while left := dict(self.processes()):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        for launch in self.launches:
            launch.wait()

    # Looking.

    def wait_for(self, seen: Callable[[], object], what: str, *, every: float = 0.005) -> None:
        """Look until it is so; the launch must not end before."""
        while not seen():
            need(self.launches[-1].poll() is None, f"the launch ended before {what}")
            need(time.monotonic() < self.deadline, f"no {what} in {DEADLINE:.0f} s")
            time.sleep(every)

    def saved(self) -> list[int]:
        """The steps that there are checkpoints of."""
        return [int(path.name[5:]) for path in (self.out / "checkpoints").glob("step-*")]

    def checkpoint(self, step: int, prefix: str = "") -> Path:
        return self.out / "checkpoints" / f"{prefix}step-{step:08d}"

    def processes(self) -> Iterator[tuple[int, list[bytes]]]:
        """All that this run has started and that still lives, each with its environment."""
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                settings = (place / "environ").read_bytes().split(b"\0")
                if f"{MARK}={self.mark}".encode() in settings:
                    yield int(place.name), settings

    def ranks(self, *numbers: int) -> list[int]:
        """Their processes, as soon as all are there."""
        found: dict[int, int] = {}

        def seen() -> bool:
            for pid, settings in self.processes():
                found.update({n: pid for n in numbers if f"RANK={n}".encode() in settings})
            return len(found) == len(numbers)

        self.wait_for(seen, f"ranks {numbers}")
        return [found[n] for n in numbers]

    # Striking.

    def kill(self, victims: list[int]) -> None:
        """SIGKILL, and see them gone."""
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        patience = time.monotonic() + 10
        while any(state(pid) not in "ZX" for pid in victims):
            need(time.monotonic() < patience, f"one of {victims} survived SIGKILL")
            time.sleep(0.005)

    def kill_rank(self) -> None:
        self.kill(self.ranks(LAST))

    def kill_all(self) -> None:
        self.kill(self.ranks(*RANKS))

    def kill_node(self) -> None:
        self.kill([self.launches[-1].pid, *self.ranks(*RANKS)])

    def kill_in_save(self, part: str) -> None:
        """Kill all ranks as soon as this part of the second save is on the disk."""
        self.launch(until=2 * EVERY)
        victims = self.ranks(*RANKS)  # looked up now: a save takes milliseconds
        self.wait_for(lambda: any(self.checkpoint(2 * EVERY, ".tmp-").glob(part)), "its second save", every=0.001)
        self.kill(victims)
        if 2 * EVERY in self.saved():
            raise TooLate("the save had ended before the strike")


def state(pid: int) -> str:
    """The letter that /proc has for it: T is stopped, Z and X are dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def losses(out: Path) -> dict[int, str]:
    """The loss of each step, to the bit; of a line that is being written, nothing."""
    with suppress(FileNotFoundError):
        lines = (out / "metrics.jsonl").read_text().splitlines(keepends=True)
        return {told["step"]: told["loss"] for told in (json.loads(line) for line in lines if line[-2:] == "}\n")}
    return {}


def right_after_save(run: Run) -> None:
    (victim,) = run.launch(until=2 * EVERY).ranks(LAST)
    run.wait_for(run.checkpoint(2 * EVERY).exists, "its second checkpoint", every=0.001)
    run.kill([victim])


def twice(run: Run) -> None:
    for step in (MIDDLE, (MIDDLE + STEPS) // 2 + 1):
        run.launch(until=step).kill_rank()
        run.ended()


def hidden_checkpoints(run: Run) -> None:
    run.launch(until=MIDDLE).kill_node()
    checkpoints, aside = run.out / "checkpoints", run.scratch / "aside"
    checkpoints.rename(aside)
    checkpoints.mkdir()  # a mount point, and nothing mounted
    run.launch().ended()
    checkpoints.rename(run.scratch / "made-while-hidden")
    aside.rename(checkpoints)


def flipped_bit(run: Run) -> None:
    run.launch(until=MIDDLE).kill_node()
    run.damaged = max(run.saved())
    largest = max(run.checkpoint(run.damaged).rglob("*.distcp"), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)


def write_error(run: Run) -> None:
    (pid,) = run.launch(until=2 * EVERY - 5).ranks(LAST)
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1000, before[1]))
    run.wait_for(lambda: f"saving step {2 * EVERY} failed" in run.logs[-1].read_text(), "a save that fails")
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    run.wait_for(lambda: max(losses(run.out)) > 3 * EVERY, "the next save")
    run.kill_all()


def frozen_rank(run: Run) -> None:
    (pid,) = run.launch(until=MIDDLE).ranks(LAST)
    os.kill(pid, signal.SIGSTOP)
    run.wait_for(lambda: state(pid) == "T", "a frozen rank")
    time.sleep(3)  # the experiment itself
    os.kill(pid, signal.SIGCONT)


def not_a_number(run: Run) -> None:
    run.sabotage("nan", step=2 * EVERY + 1)
    run.launch(until=STEPS - EVERY + 2).kill_all()


def sigterm_one_rank(run: Run) -> None:
    os.kill(run.launch(until=MIDDLE).ranks(0)[0], signal.SIGTERM)
    need(run.ended() != 0, "the launch did not mind SIGTERM")


EXPERIMENTS: dict[str, Callable[[Run], object]] = {
    "test_epoch_boundary": lambda run: run.launch(until=EPOCH + 2).kill_all(),
    # Of the sharded part, the metadata are written last; what is not sharded comes after it.
    "test_between_writes": lambda run: run.kill_in_save("sharded/.metadata"),
    "test_late": lambda run: run.launch(until=STEPS - EVERY + 2).kill_all(),
    "test_hidden_checkpoints": hidden_checkpoints,
    "test_flipped_bit": flipped_bit,
    "test_write_error": write_error,
    "test_control": lambda run: need(run.launch().ended() == 0, "it ended by itself"),
    "test_one_rank_mid_epoch": lambda run: run.launch(until=MIDDLE).kill_rank(),
    "test_all_ranks": lambda run: run.launch(until=MIDDLE).kill_all(),
    "test_launcher": lambda run: run.launch(until=MIDDLE).kill_node(),
    "test_right_after_save": right_after_save,
    "test_middle_of_save": lambda run: run.kill_in_save("sharded/*.distcp"),
    "test_before_first_collective": lambda run: run.launch().kill_rank(),
    "test_twice": twice,
    "test_frozen_rank": frozen_rank,
    "test_rank_exits_0": lambda run: run.sabotage("exit", step=MIDDLE),
    "test_not_a_number": not_a_number,
    "test_sigterm_one_rank": sigterm_one_rank,
    "test_resume": lambda run: run.launch(until=EVERY + 2).kill_all(),
}


def perform(name: str, command: list[str], *, tries: int = 2) -> tuple[dict[int, str], bytes]:
    """One experiment in a directory of its own, to its end; nothing of it is left."""
    with tempfile.TemporaryDirectory(prefix="handwritten-") as scratch:
        run = Run(command, Path(scratch))
        try:
            EXPERIMENTS[name](run)
            return run.finish()
        except TooLate:
            if tries == 1:
                raise
        finally:
            run.clean_up()
    return perform(name, command, tries=tries - 1)


def compare(found: tuple[dict[int, str], bytes], reference: tuple[dict[int, str], bytes]) -> None:
    steps = sorted(found[0] | reference[0])
    wrong = [step for step in steps if found[0].get(step) != reference[0].get(step)]
    need(not wrong, f"the losses differ, in step {wrong[:1]} first")
    need(found[1] == reference[1], "the losses agree, the final models do not")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-k", metavar="SUBSTRING", default="", help="only experiments whose names contain it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there as well")
    parser.add_argument("--list", action="store_true", help="show the experiments and run nothing")
    parser.add_argument("command", nargs="*", default=COMMAND, help="after '--'; {out} is where the run lives")
    args = parser.parse_args()
    chosen = [name for name in EXPERIMENTS if args.k in name]
    if args.list:
        print("\n".join(chosen))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is cleaned up
    begun = time.monotonic()
    try:
        reference = perform("test_control", args.command)
        compare(perform("test_control", args.command), reference)
    except (Failed, OSError, ValueError) as problem:
        print(f"there is no reference: {problem}")
        return 1
    made = time.monotonic() - begun
    print(f"the reference, twice: {made:.1f} s", flush=True)
    results = {}
    for name in chosen:
        verdict, why, before = "pass", "", time.monotonic()
        try:
            compare(perform(name, args.command), reference)
        except (Failed, OSError, ValueError) as problem:
            verdict, why = "fail", f": {problem}"
        results[name] = {"verdict": verdict, "seconds": time.monotonic() - before}
        print(f"{name}: {verdict} in {results[name]['seconds']:.1f} s{why}", flush=True)
    total = time.monotonic() - begun
    if args.json is not None:
        document = {"seconds": total, "reference_seconds": made, "experiments": results}
        args.json.write_text(json.dumps(document, indent=1) + "\n")
    passed = sum(result["verdict"] == "pass" for result in results.values())
    print(f"{passed} of {len(results)} passed in {total:.1f} s")
    return 0 if passed == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
