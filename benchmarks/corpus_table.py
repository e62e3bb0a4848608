"""The runs of the corpus: which job, what is done to it, which codes that must give (see `corpus.py`).

The trainer saves after every tenth of its 60 steps, and an epoch has 20, unless its arguments say otherwise.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaoskit import NodeLossPolicy, faults, targets
from chaoskit.faults import Fault

GOOD = "tinymodels.train"
LOG = r"step (?P<step>[0-9]+) epoch [0-9]+ loss (?P<loss>[^ ]+)"
METRICS = r'"step": (?P<step>[0-9]+), "loss": "(?P<loss>[^"]+)"'


@dataclass(frozen=True)
class Entry:
    """One run. `module` is a trainer of the gallery, or `script` a file of this repository.

    A trainer that goes wrong after a resume only is judged by the reference of the good one, which saves half of the
    time and most of the room; with `own` it has a reference of its own. `alike` are arguments of the reference that
    make no difference to it. `expect` are codes that the run must give: else it shows not what it is there for.
    `usual` ones are judged by the checks of the bundled experiments alone, all others by every check there is.
    """

    name: str
    faults: Sequence[Fault] = ()
    module: str = GOOD
    args: Sequence[str] = ()
    script: str = ""
    own: bool = False
    shared: Sequence[str] = ()
    expect: Sequence[str] = ()
    nodes: int | str = 1
    storage: str = ""
    archive: str = "trainer"
    usual: bool = False
    job: Mapping[str, Any] = field(default_factory=dict)


def gallery(name: str, *these: Fault, args: str = "", expect: str = "", **more: Any) -> Entry:
    """A trainer of the gallery."""
    module = f"tinymodels.gallery.{name.partition('@')[0].replace('-', '_')}"
    return Entry(
        f"gallery-{name.replace('@', '-')}", these, module=module, args=args.split(), expect=expect.split(), **more
    )


def good(name: str, *these: Fault, args: str = "", expect: str = "", **more: Any) -> Entry:
    """The trainer that survives everything."""
    return Entry(f"good-{name}", these, args=args.split(), expect=expect.split(), **more)


def stop(step: int) -> Fault:
    """All ranks are killed."""
    return faults.kill(rank="all").at_step(step)


def down(step: int) -> Fault:
    """The node is lost: the command has to be started again."""
    return faults.kill(launcher=True).at_step(step)


UNGUARDED = "--on-nonfinite off --allow-nonfinite-saves"

FIRST = (
    good("control", usual=True),
    good("killed", stop(52)),
    good("one-rank", faults.kill(rank=1).at_step(32)),
    good("twice", stop(25), stop(52), usual=True),
    good("between-writes", faults.kill(rank="all").between_writes(5)),
    good("paused", faults.pause(rank=1, seconds=1.5).at_step(25)),
    good("truncated", down(52), faults.truncate(launches=1).before_relaunch()),
    good("watched", storage="watched"),
    good("log", stop(52), job={"log_regex": LOG}),
    good("nan", faults.nan(rank=-1).at_step(42), stop(53)),
    good("missed", faults.io_error(files="nowhere/*", seconds=1).at_step(30), expect="fault-not-observed"),
    gallery("rng-missing", stop(52), expect="rng-not-restored"),
    gallery("sampler-epoch-zero", faults.kill(rank=1).at_step(32), expect="data-replayed data-skipped"),
    gallery("ema-reset", stop(52), expect="ema-not-restored"),
    gallery("ema-hand-rolled-reset", stop(52), own=True, expect="ema-not-restored"),
    gallery("buffers-dropped", stop(52), expect="buffers-not-restored"),
    gallery("weight-decay-reset", stop(52), expect="options-not-restored"),
    gallery("sched-double-step", stop(52), expect="lr-schedule-off"),
    gallery("token-counter-reset", stop(52), expect="extra-state-not-restored"),
    gallery("lazy-keys-dropped", stop(52), expect="optimizer-not-restored"),
    gallery("strict-false", stop(52), expect="model-not-restored"),
    gallery("data-restart-zero", stop(52), expect="data-replayed"),
    gallery("silent-scratch", down(32), faults.hide().before_relaunch(), expect="restarted-from-scratch"),
    gallery("no-checksum", down(52), faults.file_bitflip().before_relaunch(), expect="corrupt-accepted"),
    gallery(
        "nan-through-clip", faults.nan(rank=-1).at_step(42), stop(53), args="--allow-nonfinite-saves",
        expect="nonfinite-accepted poisoned-checkpoint",
    ),
    gallery("nan-to-num", faults.nan(rank=-1, into=targets.gradient()).at_step(42), expect="corruption-accepted"),
    gallery("log-double-first", stop(52), job={"log_regex": LOG}, expect="log-wrong"),
    gallery("orphans", faults.kill(rank=1).at_step(52), expect="orphans"),
    gallery("no-fsync", storage="watched", expect="checkpoint-not-durable"),
    gallery("replica-unreduced", stop(52), own=True, expect="ranks-diverged"),
)  # fmt: skip

CHECKPOINTS = (
    gallery("partial-dir-latest", faults.kill(rank="all").between_writes(5), job={"relaunches": 1},
            expect="torn-checkpoint crash-loop"),
    gallery("delete-before-save", faults.kill(rank="all").during_save(5), args="--keep 1", job={"relaunches": 1},
            expect="checkpoint-lost"),
    gallery("torn-overwrite", faults.kill(rank="all").during_save(5), job={"relaunches": 1},
            expect="torn-checkpoint"),
    gallery("debris-grows", *(faults.kill(rank="all").during_save(n) for n in (3, 4, 5)), expect="debris-left"),
    gallery("phantom-step", faults.raise_(rank=0, type="OSError").during_save(4), stop(52),
            expect="stale-checkpoint"),
    gallery("fails-open", down(52), faults.strip_checksums(launches=1).before_relaunch(),
            expect="corrupt-accepted"),
    gallery("rank-incomplete", down(52), faults.file_bitflip().before_relaunch(), expect="corrupt-accepted"),
    gallery("ranks-disagree", faults.kill(rank=-1).after_save(5), own=True, args="--timeout 5",
            expect="ranks-diverged"),
    gallery("boundary-skips-epoch", stop(42), expect="data-skipped"),
    gallery("async-live-tensors", stop(32), args="--save-async --write-delay 0.2", expect="checkpoint-unfaithful"),
    gallery("timestamp-lexical", stop(53), own=True, args="--save-every 3 --keep 99", expect="stale-checkpoint"),
    gallery("retention-newest", stop(53), args="--save-every 3 --keep 2", shared=("--save-every", "3", "--keep", "99"),
            expect="checkpoint-lost"),
    good("keeps-more", stop(52), args="--keep 6", expect="disk-use-grows"),
    good("none-whole", down(52), faults.truncate(checkpoints="all", launches=1).before_relaunch()),
    good("swapped", down(52), faults.swap_older(launches=1).before_relaunch()),
    good("interrupted-saves", *(faults.kill(rank="all").during_save(n) for n in (3, 4, 5))),
    good("disk-full", faults.disk_full(after_bytes=100_000, until_step=45, launches=0).at_step(40), stop(45), stop(52)),
    good("transient-error", faults.io_error(files="checkpoints/*").at_step(40), stop(45)),
    good("storage-gone", faults.storage_gone(seconds=2).at_step(40), stop(52)),
    gallery("save-error-fatal", faults.io_error(files="checkpoints/*").at_step(40), job={"relaunches": 1},
            expect="crash-loop"),
)  # fmt: skip

AT_REST = (
    good("two-truncated", down(52), faults.truncate(checkpoints=2, launches=1).before_relaunch()),
    good("older-deleted", down(52), faults.delete(whole=True, older=True, launches=1).before_relaunch()),
    good("refuses", down(52), faults.truncate(checkpoints="all").before_relaunch(), job={"relaunches": 1}),
    gallery("silent-scratch@none-whole", down(32), faults.delete(whole=True, checkpoints="all").before_relaunch()),
    gallery("no-checksum@swapped", down(52), faults.swap_rank(launches=1).before_relaunch()),
    gallery("timestamp-lexical@truncated", down(53), faults.truncate(launches=1).before_relaunch(), own=True,
            args="--save-every 3 --keep 99"),
    gallery("partial-dir-latest@truncated", down(52), faults.truncate(launches=1).before_relaunch(),
            expect="torn-checkpoint"),
    gallery("rename-race", down(32), faults.truncate(checkpoints=2, launches=1).before_relaunch(), stop(45)),
    gallery("loader-step-ahead", faults.kill(rank="all").during_save(5), expect="data-skipped"),
    gallery("pointer-early", faults.kill(rank="all").during_save(5),
            args="--save-async --write-delay 0.3 --step-delay 0.06 --keep 1", job={"relaunches": 1}),
    gallery("inf-passes", faults.inf(rank=-1, into=targets.gradient()).at_step(42),
            args="--on-nonfinite skip --allow-nonfinite-saves", expect="nonfinite-accepted"),
)  # fmt: skip

STATE = (
    gallery("optim-by-position", stop(52), expect="optimizer-not-restored", archive="state"),
    gallery("ema-saved-as-model", stop(52), expect="checkpoint-unfaithful", archive="state"),
    gallery("rng-unused-dropped", stop(52), own=True, expect="rng-unused-not-restored", archive="state"),
)  # fmt: skip

NUMBERS = (
    good("nan-skipped", faults.nan(rank=-1, into=targets.gradient()).at_step(42), args="--on-nonfinite skip"),
    good("nan-rolled-back", faults.nan(rank=-1, into=targets.gradient()).at_step(42), args="--rollback-after 1"),
    good("bitflip-caught", faults.bitflip(rank=-1, into=targets.parameter(), bit=29).at_step(43),
         args="--check-replicas 5 --check-finite 1"),
    good("bitflip-optimizer", faults.bitflip(rank=1, into=targets.optimizer(), bit=22).at_step(53),
         args="--check-replicas 1000"),
    good("scaled-parameter", faults.scale(2.0, rank=-1, into=targets.parameter(), elements=1).at_step(42)),
    good("all-reduce-bit", faults.bitflip(rank=1, into=targets.collective("all_reduce"), bit=22).at_step(53)),
    good("inf-unguarded", faults.inf(rank=0, into=targets.gradient()).at_step(53), args=UNGUARDED,
         expect="nonfinite-accepted"),
    good("lr-spike", faults.lr_spike(100).at_step(53)),
    good("bad-batch", faults.bad_batch(rank=0).at_step(53)),
    good("stale-gradient", faults.stale(rank=1, into=targets.gradient()).at_step(53)),
    gallery("nan-rollback-weights", faults.nan(rank=-1, into=targets.gradient()).at_step(53),
            args="--rollback-after 1", expect="optimizer-not-restored"),
    gallery("nan-rollback-cursor", faults.nan(rank=-1, into=targets.gradient()).at_step(53),
            args="--rollback-after 1", expect="model-not-restored"),
    gallery("nan-rank-skips-alone", faults.nan(rank=-1).at_step(42), args="--allow-nonfinite-saves",
            expect="nonfinite-accepted"),
    gallery("replicas-by-loss", faults.scale(2.0, rank=-1, into=targets.parameter(), elements=1).at_step(43),
            args="--check-replicas 5", expect="corruption-saved"),
    gallery("replicas-mended-from-rank0", faults.scale(2.0, rank=-1, into=targets.parameter(), elements=1).at_step(43),
            args="--check-replicas 5", expect="corruption-saved"),
    gallery("postmortem-resumed", faults.nan(rank=-1).at_step(42), stop(53)),
)  # fmt: skip

LIVENESS = (
    gallery("dead-peer-hang", faults.exit(rank=1).at_step(52), job={"timeout": 15.0}, expect="hang"),
    gallery("sigterm-one-rank", faults.kill(rank=0, signal=signal.SIGTERM).at_step(52), job={"timeout": 15.0},
            expect="hang"),
    good("preempted", faults.kill(launcher=True, signal=signal.SIGTERM).at_step(47)),
    good("no-relaunch", stop(52), job={"relaunches": 0}, expect="crash-loop"),
    gallery("log-replayed", stop(52), job={"log_regex": METRICS, "log_file": "metrics.jsonl"}, expect="log-wrong"),
    good("metrics", stop(52), job={"log_regex": METRICS, "log_file": "metrics.jsonl"}),
    gallery("rng-error-swallowed", stop(52), expect="rng-not-restored"),
    gallery("rank0-shard-only", stop(52), expect="data-replayed"),
    gallery("accum-skip-units", stop(52), expect="data-replayed"),
    gallery("shuffle-redrawn", stop(52), own=True, expect="data-replayed"),
    gallery("worker-rng-repeat", stop(52), own=True, args="--workers 1 --noise 0.3", expect="rng-not-restored"),
    gallery("scaler-missing", stop(52), args="--amp", shared=("--amp",), expect="scaler-not-restored"),
    gallery("optim-not-saved", stop(52), args="--parallel fsdp", shared=("--parallel", "fsdp"),
            expect="optimizer-not-restored"),
    good("fsdp", stop(52), args="--parallel fsdp", shared=("--parallel", "fsdp")),
)  # fmt: skip

STEP_DELAY = ("--global-batch", "16", "--timeout", "6", "--step-delay", "0.05")
GONE = {"node_loss": NodeLossPolicy(lost="gone")}


def elastic(name: str, *these: Fault, expect: str = "", **more: Any) -> Entry:
    """A trainer of the gallery on one to two nodes."""
    job = {**GONE, "relaunches": 1, **more.pop("job", {})}
    which = {"module": GOOD} if name.startswith("good") else {}
    entry = gallery(name, *these, expect=expect, nodes="1:2", archive="nodes", job=job, **more)
    return Entry(**{**vars(entry), **which, "name": f"nodes-{name}", "args": STEP_DELAY, "shared": STEP_DELAY})


def nodes(name: str, *these: Fault, expect: str = "", **more: Any) -> Entry:
    """A trainer on two nodes."""
    module = GOOD if name.startswith("good") else f"tinymodels.gallery.{name.replace('-', '_')}"
    return Entry(
        f"nodes-{name}", these, module=module, args=("--timeout", "4"), shared=("--timeout", "4"), nodes=2,
        expect=expect.split(), archive="nodes", **more,
    )  # fmt: skip


BACK = {"node_loss": NodeLossPolicy(lost="returns", after=1)}

NODES = (
    nodes("good-node-lost", faults.kill_node(node=-1).at_step(32), job=BACK),
    nodes("good-partition-long", faults.partition(groups=((0,), (1,)), seconds=7).at_step(32)),
    nodes("good-partition-short", faults.partition(groups=((0,), (1,)), seconds=1.3).at_step(32)),
    nodes("good-delay", faults.delay(node=1, ms=20, jitter=10, seconds=2).at_step(32)),
    nodes("rng-by-local-rank", faults.kill_node(node=-1).at_step(52), job=BACK, expect="rng-not-restored"),
    elastic("good-shrink", faults.kill_node(node=-1).at_step(32)),
    elastic("good-shrink-and-grow", faults.kill_node(node=-1).at_step(25), faults.add_node().at_step(35)),
    elastic("world-batch", faults.kill_node(node=-1).at_step(32), expect="global-batch-changed"),
    elastic("world-scratch", faults.kill_node(node=-1).at_step(32), expect="restarted-from-scratch"),
    elastic("sched-times-world", faults.kill_node(node=-1).at_step(32), expect="lr-schedule-off"),
    elastic("world-order", faults.kill_node(node=-1).at_step(32), own=True, expect="data-replayed"),
)

OTHERS = (
    Entry("unseeded-forgets", (stop(25),), script="tests/trainers/unseeded.py", own=True, archive="others",
          args=("--forget-optimizer", "--samples", "320"), expect=("not-deterministic", "optimizer-not-restored")),
    Entry("unseeded", (stop(25),), script="tests/trainers/unseeded.py", own=True, archive="others",
          args=("--samples", "320"), expect=("not-deterministic",)),
    Entry("alone-no-save", (stop(9),), script="tests/trainers/alone.py", args=("--misbehave", "no-save"),
          archive="others", job={"nproc_per_node": 1}, expect=("restarted-from-scratch",)),
    Entry("alone-exits-early", (stop(9),), script="tests/trainers/alone.py", args=("--misbehave", "exit-early"),
          archive="others", job={"nproc_per_node": 1}, expect=("exited-early",)),
    *(
        Entry(f"framework-{name.replace('_', '-')}", (stop(step),), script=f"examples/{name}/train.py", own=True,
              archive="frameworks")
        for name, step in (("transformers_trainer", 21), ("lightning_trainer", 9), ("loop_gan", 9),
                           ("loop_iterable", 9))
    ),
)  # fmt: skip

ENTRIES = (*FIRST, *CHECKPOINTS, *STATE, *AT_REST, *NUMBERS, *LIVENESS, *NODES, *OTHERS)
