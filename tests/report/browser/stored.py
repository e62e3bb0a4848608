"""Stored runs that never took place: what a `Writer` tells, put on disk as the probe, the harness and the judge would.

Each of `STORIES` shows something else that a page must draw.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaoskit import checks
from chaoskit.checks import Check
from chaoskit.engine import runner
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Run
from chaoskit.job import Job
from chaoskit.protocol.events import Event
from tests.history_writer import Writer, loss

#: What most experiments of the battery claim.
CLAIMS = (
    checks.completed(), checks.resumed_from_last_valid(), checks.state_restored(), checks.same_data(),
    checks.matches_reference(), checks.stays_finite(), checks.no_orphans(),
)  # fmt: skip
WORDS = ("torchrun", "--nproc-per-node", "2", "train.py", "--out", "{out}")
#: The name of all references.
DIGEST = "0123456789abcdef"
#: Text that runs, if a page takes it for its own.
HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>\"'--></style>{{ 7 * 7 }}"


def stored(
    store: Store,
    run: Writer,
    *,
    experiment: str = "test_one_rank_mid_epoch",
    words: Iterable[str] = WORDS,
    claims: Sequence[Check] = CLAIMS,
    logs: Mapping[str, str] | None = None,
) -> Run:
    """The run that the writer tells, beside two equal controls, stored, and judged if anything is claimed."""
    job = Job.from_command(list(words))
    run_dir = store.new_run(job=job.to_json(), experiment=experiment, reference=DIGEST)
    _write(run.events, run_dir / "events")
    control = run.control().events
    for number in range(2):
        _write(control, run_dir / "reference" / f"control-{number}" / "events")
    for name, text in (logs or {"launch-0.log": "step 1\nstep 2\n"}).items():
        (run_dir / "logs" / name).write_text(text)
    store.finish(run_dir, run.history().end or "running")
    made = runner.stored(run_dir, store)
    if claims:
        made.judge(*claims)
    return made


def _write(events: Iterable[Event], directory: Path) -> None:
    """The files of all who speak, one line an event."""
    directory.mkdir(parents=True, exist_ok=True)
    lines: dict[str, list[str]] = {}
    for event in events:
        own = lines.setdefault(event.source, [])
        own.append(json.dumps({"i": len(own), "t": event.t, "e": event.kind, **event.data}))
    for source, own in lines.items():
        (directory / f"{source}.jsonl").write_text("\n".join(own) + "\n")


def opened(run: Writer, *loads: tuple[str, str]) -> Writer:
    """The life just told has begun with these loads, a second each: a path, and the error that came of it or ""."""
    known = len(run.events)
    for path, error in loads:
        run.load(path, error=error)
    told, run.events[known:] = run.events[known:], []
    at = 1 + max(number for number, event in enumerate(run.events) if event.kind == "process.start")
    began, took = run.events[at - 1].t, float(len(loads))
    told = [replace(event, t=began + took * (n + 1) / (len(told) + 1)) for n, event in enumerate(told)]
    run.events[at:] = [*told, *(replace(event, t=event.t + took) for event in run.events[at:])]
    run.t += took
    return run


def passed() -> Writer:
    """Killed after step 25, back from 20, and right in all."""
    run = Writer().launch().live(until=25).fault("kill rank 1 at step 26").died().launch().live(base=20, ends=True)
    return opened(run, ("step-20.pt", "")).exit(0).end()


def optimizer() -> Writer:
    """The same, and the optimizer begins anew."""
    run = Writer().launch().live(until=25).fault("kill rank 1 at step 26").died()
    run.launch().live(base=20, off={"optimizer": 0}, ends=True)
    return opened(run, ("step-20.pt", "")).exit(0).end()


def fallback() -> Writer:
    """Paused for a while; killed after step 45; the newest checkpoint is damaged, refused, and the one before taken.
    Its save at 45 is torn."""
    run = (
        Writer().launch().live(until=45, pause=10, extra={45: "step-45.pt"}).fault("kill rank 1 at step 46").died()
    )
    run.fault(
        "flip a bit of step 40", evidence={"file": "step-40.pt", "save": {"launch": 0, "restart": 0, "n": 40}}
    )
    run.launch().live(base=20, ends=True)
    return opened(run, ("step-40.pt", "RuntimeError: checksum mismatch"), ("step-20.pt", "")).exit(0).end()


def numbers() -> Writer:
    """A loss that is not a number, one that is infinite, and one that is far from all others; the last save holds a
    value that is not finite, too."""
    spikes = {(0, 33): "nan", (1, 35): "inf", (1, 37): (1e6).hex()}
    run = Writer().launch().live(until=25).fault("kill rank 1 at step 26").died()
    run.launch().live(base=20, losses=spikes, ends=True).save(nonfinite=["model.head.weight"])
    return run.exit(0).end()


def hang() -> Writer:
    """Rank 1 is gone, and rank 0 waits for it until the deadline."""
    run = Writer().launch().live(until=25).fault("rank 1 exits with 0 at step 26")
    run.t += 60
    for rank, where in enumerate(("all_reduce", "barrier")):
        frames = f'  File "/job/torch/distributed/distributed_c10d.py", line 1 in {where}\n'
        run.say("stack", rank=rank, text=f'Current thread 0x2:\n{frames}  File "/job/train.py", line 41 in step\n')
    return run.exit(-9, cause="deadline").end("deadline")


def gone() -> Writer:
    """It never comes back: each launch dies before its first step."""
    run = Writer().launch().live(until=25).fault().died()
    for _ in range(3):
        opened(run.launch().live(base=20, until=20), ("step-20.pt", "EOFError: Ran out of input")).exit(1)
    return run.end("gave-up")


def hostile() -> Writer:
    """Whatever the job or its faults say is written to run in the page that shows it."""
    run = Writer().launch().live(until=25, path=f"{HOSTILE}-{{}}.pt").fault(HOSTILE).died()
    opened(run.launch().live(base=20, off={"model": HOSTILE}, ends=True), (f"{HOSTILE}.pt", HOSTILE))
    run.say("stack", rank=0, text=HOSTILE)
    return run.exit(0).end(HOSTILE)


def long(*, steps: int = 5000, ranks: int = 8, **options: Any) -> Writer:
    """As many steps as a page must bear: a kill in the middle, a relaunch, one spike and one loss that is no number."""
    spikes = {(ranks - 1, steps * 3 // 4): (1e3).hex(), (1, steps * 4 // 5): "nan"}
    run = Writer(steps=steps, ranks=ranks, every=steps // 50, tell_loss=noisy, **options)
    half = steps // 2 + steps // 100
    run.launch().live(until=half).fault(f"kill rank 1 at step {half + 1}").died()
    base = half - half % run.every
    run.launch().live(base=base, losses=spikes, ends=True)
    return opened(run, (f"step-{base}.pt", "")).exit(0).end()


def noisy(rank: int, step: int) -> str:
    """A loss like those of real runs: it falls, and shakes."""
    shake = ((step * 7919 + rank * 104729) % 1000) / 1000 - 0.5
    return (float.fromhex(loss(0, step)) ** 0.2 * 2.5 + 0.08 * shake).hex()


#: By name: what the writer tells, and options of `stored`.
STORIES: dict[str, tuple[Callable[[], Writer], dict[str, Any]]] = {
    "passed": (passed, {}),
    "optimizer": (optimizer, {}),
    "fallback": (fallback, {}),
    "numbers": (numbers, {}),
    "hang": (hang, {"experiment": "test_rank_exits_0"}),
    "gone": (gone, {}),
    "unjudged": (passed, {"claims": ()}),
    "hostile": (
        hostile,
        {
            "experiment": f"test_nan[{HOSTILE}]",
            "words": [*WORDS, HOSTILE],
            "logs": {"launch-0.log": f"step 1\n{HOSTILE}\n"},
        },
    ),
}


def stories(store: Store) -> dict[str, Run]:
    """A run of each story, by its name."""
    return {name: stored(store, tell(), **options) for name, (tell, options) in STORIES.items()}
