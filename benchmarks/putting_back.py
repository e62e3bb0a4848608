"""Proof by putting back, over the gallery: is a run exact once the lost component alone is put back?

    python benchmarks/putting_back.py                         # every trainer of the families that lose state
    python benchmarks/putting_back.py --only rng-missing      # some of them
    python benchmarks/putting_back.py --json figures.json

chaoskit stops each trainer right after its first save, as `test_resume` does. Then it takes the lost component from the
reference at that step, puts it back, and repeats the run. The table says of each trainer: `proven`, or what else is
lost, or why the component cannot be put back.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from gallery_sittings import BIN  # noqa: E402
from table import parser  # noqa: E402

from chaoskit import Job, faults  # noqa: E402
from chaoskit.engine.run_store import Store  # noqa: E402
from chaoskit.engine.runner import Runner  # noqa: E402
from chaoskit.studies.putting_back import prove  # noqa: E402
from tests.claims import CLAIMS  # noqa: E402
from tinymodels.gallery.catalogue import Mutant, mutants  # noqa: E402

FAMILIES = ("model and average", "optimizer and schedule", "random numbers")


def examine(mutant: Mutant, store: Store, launch: str) -> dict[str, Any]:
    """What became of one trainer: the codes of its run, and the proof."""
    words = [str(BIN / "torchrun"), "--nproc-per-node", "2", "-m", mutant.module, "--out", "{out}", *mutant.args]
    job = Job.from_command(words, cwd=str(ROOT))
    runner = Runner(store, experiment="test_resume", launch=launch)
    begun = time.monotonic()
    reference = runner.reference(job)
    run = runner.run(job, faults.kill(rank="all").at_step(reference.saves[0] + 2))
    run.judge(*CLAIMS)
    codes = list(dict.fromkeys(code for verdict in run.verdicts for code in verdict.codes))
    judged = time.monotonic()
    proof = prove(runner, run)
    return {
        "slug": mutant.slug,
        "family": mutant.family,
        "codes": codes,
        "proof": asdict(proof) if proof is not None else None,
        "runs": len(runner.runs),
        "seconds": round(time.monotonic() - judged, 1),
        "seconds_of_run": round(judged - begun, 1),
    }


def main() -> int:
    """Examine the chosen trainers, one after the other."""
    made: argparse.ArgumentParser = parser(__doc__ or "")
    made.add_argument("--only", default="", help="the names of some trainers, with commas")
    made.add_argument("--dir", type=Path, default=ROOT / "build" / "putting-back", help="where runs are stored")
    made.add_argument("--launch", default="auto", choices=("auto", "cold", "warm"))
    args = made.parse_args()
    chosen = [
        one
        for one in mutants()
        if one.nodes == "1" and (one.slug in args.only.split(",") if args.only else one.family in FAMILIES)
    ]
    rows = []
    for mutant in chosen:
        try:
            row = examine(mutant, Store(args.dir), args.launch)
        except Exception as error:  # one that cannot be examined must not cost the others
            row = {"slug": mutant.slug, "family": mutant.family, "error": f"{type(error).__name__}: {error}"[:400]}
        rows.append(row)
        proof = row.get("proof") or {}
        outcome = proof.get("outcome", row.get("error", "nothing lost"))
        codes = ",".join(row.get("codes", ()))
        print(f"{mutant.slug:24} {codes:40} {outcome:12} {proof.get('sentence', '')}", flush=True)
        if args.json:
            args.json.write_text(json.dumps({"rows": rows, "counts": _counts(rows)}, indent=1) + "\n")
    print(", ".join(f"{name}: {count}" for name, count in _counts(rows).items()), f"of {len(rows)}")
    return 0


def _counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    return dict(Counter((row.get("proof") or {}).get("outcome", "none") for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
