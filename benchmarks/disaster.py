"""The disaster drill: the machine of a training job is lost with its disk, and the job comes back from its replica.

Both stores are there, and then the first is not: RPO is how many steps were between the newest checkpoint in the
replica and the loss, RTO how long it took from the relaunch until a step was taken that had not been taken before the
loss; of that, until the trainer had resumed. Where the end is not that of a run that was never struck, to the bit, the
drill has failed.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from table import Figure, parser, show

REPOSITORY = Path(__file__).resolve().parents[1]
SAVE_EVERY = 5
LOST_AFTER = 33  # steps
#: What is saved, and the flags for it.
KINDS: dict[str, tuple[str, ...]] = {"full checkpoints": (), "deltas, one full in 4": ("--delta-every", "4")}


class Ranks:
    """Two ranks of the good trainer, without a launcher: when the machine goes, so does it."""

    def __init__(self, out: Path, *flags: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        command = [sys.executable, "-m", "tinymodels.train", "--out", str(out), "--device", "cpu"]
        place = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
        self.all = [
            subprocess.Popen(
                [*command, "--save-every", str(SAVE_EVERY), *flags],
                cwd=REPOSITORY,
                stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                text=True,
                env={**place, "RANK": str(rank)},
            )
            for rank in range(2)
        ]

    def steps(self, *, lost_after: int = 0) -> list[tuple[float, int]]:
        """When rank 0 said which step; -1 where it said from where it resumes. The machine is lost after a step."""
        seen: list[tuple[float, int]] = []
        assert self.all[0].stdout is not None
        for line in self.all[0].stdout:
            if found := re.match(r"step (\d+) ", line):
                seen.append((time.monotonic(), int(found[1])))
                if seen[-1][1] == lost_after:
                    for rank in self.all:
                        rank.kill()
            elif line.startswith("resumed from"):
                seen.append((time.monotonic(), -1))
        for rank in self.all:
            rank.wait()
        return seen


def drill(work: Path, expected: bytes, *flags: str) -> tuple[int, float, float]:
    """One disaster: RPO in steps, RTO in seconds, and the seconds until the trainer had resumed."""
    out, replica = work / "first", work / "second"
    for store in (out, replica):
        shutil.rmtree(store, ignore_errors=True)
    options = ("--replica", str(replica), *flags)
    lost = max(step for _, step in Ranks(out, *options).steps(lost_after=LOST_AFTER))
    shutil.rmtree(out)
    newest = max(int(path.name.removeprefix("step-")) for path in replica.glob("step-*"))
    begun = time.monotonic()
    seen = Ranks(out, *options).steps()
    resumed = next((t for t, step in seen if step == -1), None)
    if resumed is None or (out / "model.safetensors").read_bytes() != expected:
        raise SystemExit("the job did not come back as it was")
    return lost - newest, next(t for t, step in seen if step > lost) - begun, resumed - begun


def main() -> int:
    """Exit code 0 if every drill ended as the run that was never struck."""
    options = parser((__doc__ or "").partition("\n\n")[0])
    options.add_argument("--repeat", type=int, default=3, help="drills of each kind")
    options.add_argument("-k", metavar="SUBSTRING", default="", help="only the kinds of checkpoints that hold it")
    args = options.parse_args()
    figures = []
    with tempfile.TemporaryDirectory(prefix="disaster-") as place:
        work = Path(place)
        Ranks(work / "whole").steps()
        expected = (work / "whole" / "model.safetensors").read_bytes()
        for kind, flags in KINDS.items():
            if args.k not in kind:
                continue
            drills = [drill(work, expected, *flags) for _ in range(args.repeat)]
            lost, back, resumed = zip(*drills, strict=True)
            figures += [
                # A checkpoint that was being copied when the machine was lost is lost, too.
                Figure(f"RPO, {kind}", max(lost), "steps, worst", f"<= {2 * SAVE_EVERY}"),
                Figure(f"RTO, {kind}", statistics.median(back), "s, median"),
                Figure(f"of it, until resumed, {kind}", statistics.median(resumed), "s, median"),
            ]
    title = f"disaster drill: 2 ranks, a save every {SAVE_EVERY} steps, lost after step {LOST_AFTER}"
    show(title, figures, json_file=args.json)
    return 0 if all(figure.met is not False for figure in figures) else 1


if __name__ == "__main__":
    raise SystemExit(main())
