"""What chaoskit sees of the ways in which jobs use a GPU, and whether a kill and a resume are judged exact in each.

    python benchmarks/gpu/kinds.py --workers 4
    python benchmarks/gpu/kinds.py --device cpu --only plain,copied   # only to see that it runs

Each kind of benchmarks/gpu/trainer.py goes through two experiments. Beside the verdicts stands how many of the steps of
its first uninterrupted run have a loss, a batch, and rows of the data set; and the errors of the probe.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from chaoskit.protocol.events import Event, read_events  # noqa: E402

TRAINER = ROOT / "benchmarks" / "gpu" / "trainer.py"
KINDS = (
    "plain", "pinned", "copied", "prefetched", "bf16", "fp16", "compile", "reduce-overhead", "graph-step",
    "graph-backward", "graphed-model", "fsdp", "fused", "foreach", "capturable",
)  # fmt: skip


def examined(words: list[str], experiments: str, *, launch: str = "auto") -> dict[str, Any]:
    """The answers of `chaoskit run` on the trainer with these words, and what its first run recorded."""
    with tempfile.TemporaryDirectory() as scratch:
        answer, store = Path(scratch) / "answer.json", Path(scratch) / "store"
        command = [
            *(sys.executable, "-m", "chaoskit", "run", "-n", "1", "--no-proof", "-k", experiments, "--launch", launch),
            *("--dir", str(store), "--json", str(answer), "--"),
            *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "1", str(TRAINER), "--out", "{out}"),
        ]
        done = subprocess.run([*command, *words], cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        found: dict[str, Any] = {"output": (done.stdout + done.stderr)[-3000:], "code": done.returncode}
        if answer.exists():
            found["experiments"] = {
                each["name"]: {key: each[key] for key in ("verdict", "codes", "sentences")}
                for each in json.loads(answer.read_text())["experiments"]
            }
        return found | recorded(store)


def recorded(store: Path) -> dict[str, Any]:
    """What the first uninterrupted run recorded, the settings, and all errors of the probe."""
    files = sorted(store.glob("**/events/rank-*.jsonl"), key=lambda path: path.stat().st_mtime)
    errors = [f"{e['where']}: {e['error']}" for path in files for e in _events(path) if e.kind == "probe.error"]
    first = list(_events(files[0])) if files else []
    late = {e["n"]: e.data for e in first if e.kind == "late"}
    steps = [{**e.data, **late.get(e["n"], {})} for e in first if e.kind == "step"]
    states = [{**e["state"], **late.get(e["n"], {}).get("state", {})} for e in first if e.kind == "step"]
    return {
        "steps": len(steps),
        "with a loss": sum(bool(each.get("losses")) for each in steps),
        "with a batch": sum("batch" in each for each in states),
        "with rows": sum(bool(each.get("rows")) for each in steps),
        "settings": next((dict(e["values"]) for e in first if e.kind == "settings"), {}),
        "errors": sorted(set(errors))[:5],
    }


def _events(path: Path) -> Iterator[Event]:
    return (event for event in read_events(path) if isinstance(event, Event))


def line(name: str, found: dict[str, Any]) -> str:
    """One line for people, and one for each thing that did not pass."""
    seen = ", ".join(f"{found[key]} {key}" for key in ("steps", "with a loss", "with a batch", "with rows"))
    own = found.get("experiments", {})
    verdicts = ", ".join(
        f"{experiment} {each['verdict']} {' '.join(each['codes'])}".strip() for experiment, each in own.items()
    )
    lines = [f"{name}: {verdicts or 'NO ANSWER'}; {seen}"]
    said = (text for each in own.values() if each["verdict"] != "pass" for text in each["sentences"][:2])
    lines += [f"    {text[:600]}" for text in said]
    lines += [f"    the probe: {error}" for error in found["errors"]]
    if not own:
        lines += [f"    | {text}" for text in found["output"].splitlines()[-25:]]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--experiments", default="test_control or one_rank_mid_epoch")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", type=Path)
    told = parser.parse_args()
    answers: dict[str, dict[str, Any]] = {}

    def examine(kind: str) -> None:
        answers[kind] = examined(["--kind", kind, "--device", told.device], told.experiments)
        print(line(kind, answers[kind]), flush=True)

    with ThreadPoolExecutor(told.workers) as pool:
        list(pool.map(examine, told.only.split(",")))
    if told.json:
        told.json.write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main()
