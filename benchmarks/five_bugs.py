"""A broken script, mended by the advice alone: what each round of `chaoskit run` says, and what is changed after it.

The script is examples/five_bugs/train.py. The patches beside it are named after the codes that ask for them. Each round
runs the experiments, counts, and applies the next patch; the last round runs what is left when all are applied. If the
list of a round lacks the code that its patch is for, the exit code is 1: the advice would not have led to it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from table import parser

REPOSITORY = Path(__file__).resolve().parents[1]
SCRIPT = REPOSITORY / "examples" / "five_bugs" / "train.py"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")


@dataclass(frozen=True)
class Round:
    """What one run of the experiments said. `codes` counts the experiments of each code, `verdicts` the experiments;
    `problems` and `weaknesses` are the codes of the list, in its order; `text` is what the terminal showed."""

    verdicts: dict[str, int]
    codes: dict[str, int]
    problems: tuple[str, ...]
    weaknesses: tuple[str, ...]
    text: str
    seconds: float
    exit_code: int
    patch: str = ""

    @property
    def lines(self) -> int:
        """How many lines the terminal showed."""
        return len(self.text.splitlines())

    @property
    def asked_for(self) -> bool:
        """Whether the list has the code that the patch after it is for."""
        return not self.patch or asked_by(Path(self.patch)) in (*self.problems, *self.weaknesses)


def patches() -> list[Path]:
    """The patches, in the order in which they apply."""
    return sorted(SCRIPT.parent.glob("*.patch"), key=lambda path: int(path.name.split("-")[0]))


def asked_by(patch: Path) -> str:
    """The code in the name of a patch."""
    return patch.stem.partition("-")[2]


def mend(place: Path, patch: Path) -> None:
    """Change the script in a directory."""
    subprocess.run(["patch", "--quiet", "train.py", str(patch)], cwd=place, check=True)


def run(place: Path, options: list[str], *, patch: str = "") -> Round:
    """Run the experiments in a directory; `patch` is what comes after them."""
    target = place / "suite.json"
    target.unlink(missing_ok=True)
    words = [sys.executable, "-m", "chaoskit", "run", *options, "--json", target.name, "--", *TORCHRUN]
    begun = time.monotonic()
    done = subprocess.run([*words, "train.py", "--out", "{out}"], cwd=place, stdout=subprocess.PIPE, text=True)
    seconds = time.monotonic() - begun
    if not target.exists():
        raise SystemExit(f"chaoskit run ended with {done.returncode} and wrote no results")
    return read(json.loads(target.read_text()), done.stdout, seconds, done.returncode, patch)


def read(document: dict[str, Any], text: str, seconds: float, exit_code: int, patch: str) -> Round:
    """A round, from what `--json` wrote and the terminal showed."""
    experiments = document["experiments"]
    codes = Counter(code for one in experiments for code in dict.fromkeys(one["codes"]))
    # One problem for each code, as long as the document has no list of problems.
    listed = document.get("problems", [{"code": code, "weakness": False} for code, _ in codes.most_common()])
    return Round(
        verdicts=dict(Counter(one["verdict"] for one in experiments)),
        codes=dict(codes),
        problems=tuple(one["code"] for one in listed if not one["weakness"]),
        weaknesses=tuple(one["code"] for one in listed if one["weakness"]),
        text=text,
        seconds=seconds,
        exit_code=exit_code,
        patch=patch,
    )


def rounds(options: list[str], *, last: int | None = None) -> Iterator[Round]:
    """Each round, and after it the change that one of its codes asks for. `last` is how many patches to apply."""
    with tempfile.TemporaryDirectory(prefix="five-bugs-") as made:
        place = Path(made)
        shutil.copy(SCRIPT, place)
        for patch in patches()[:last]:
            yield run(place, options, patch=patch.name)
            mend(place, patch)
        yield run(place, options)


def main() -> int:
    """Print a row for each round; return 1 if a patch was not asked for."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--patches", type=int, metavar="N", help="apply the first N alone")
    arguments.add_argument("-k", metavar="EXPR", help="these experiments (default: all)")
    arguments.add_argument("--quick", action="store_true", help="those of chaoskit run --quick")
    args = arguments.parse_args()
    options = ["--launch", "warm", *(["-k", args.k] if args.k else []), *(["--quick"] if args.quick else [])]
    table = Table(title="five bugs, mended by the advice alone", title_justify="left")
    for heading in ("round", "experiments", "problems", "weaknesses", "lines", "seconds", "exit", "then"):
        table.add_column(heading)
    found = []
    for number, one in enumerate(rounds(options, last=args.patches)):
        found.append(one)
        print(f"=== round {number}, {one.seconds:.0f} s\n{one.text}", flush=True)
        table.add_row(
            str(number),
            "\n".join(f"{count} {verdict}" for verdict, count in sorted(one.verdicts.items())),
            "\n".join(one.problems),
            "\n".join(one.weaknesses),
            str(one.lines),
            f"{one.seconds:.0f}",
            str(one.exit_code),
            one.patch + ("" if one.asked_for else "\nNOT ASKED FOR"),
        )
    Console(width=160).print(table)
    if args.json is not None:
        args.json.write_text(json.dumps({"rounds": [asdict(one) for one in found]}, indent=1) + "\n")
    return 0 if all(one.asked_for for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
