"""ReadinessEvidence by hand: results of the battery with stored runs, and stores that hold them."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from itertools import count
from pathlib import Path

from chaoskit import __version__, checks
from chaoskit.analysis.checkpoints.cost import CheckpointCost, SaveCost
from chaoskit.checks.registry import CODES_OF
from chaoskit.engine.result import Result
from chaoskit.engine.run_store import Store
from chaoskit.errors import CODES, FAMILIES
from chaoskit.job import Job
from chaoskit.nodes import Nodes
from chaoskit.studies.certificate.evidence import (
    Demands,
    ReadinessEvidence,
    SdcShare,
    SeenLoad,
    StoredRun,
    TriedExperiment,
)
from chaoskit.studies.certificate.judging import judge
from chaoskit.studies.certificate.rows import ROWS
from chaoskit.studies.nights.archive import Archive, Writer, machine
from chaoskit.studies.nights.conditions import Conditions
from chaoskit.studies.nights.suite import Suite, key_of
from chaoskit.verdict import Outcome, Verdict

assert checks.REGISTRY  # it fills CODES_OF
JOB = "torchrun train.py --out '{out}'"
#: Every component that a row is about, as the alignment has them after a resume from step 20.
_COUNT = count(1)
CELLS = dict.fromkeys(("model", "optimizer", "lr", "scaler", "ema", "rng.torch", "batch"), "20")
TABLE = [{"incarnation": 1, "rank": rank, "expected": 20, "cells": CELLS} for rank in (0, 1)]


def verdict(check, outcome="pass", *codes, table=TABLE, sentence=""):
    """One verdict; a fail has the first code that is given, else one of a resume."""
    given = () if outcome == "pass" else codes or ("rng-not-restored" if outcome == "fail" else "probe-blind",)
    evidence = {"table": table} if check == "state_restored" else {}
    return Verdict(check, Outcome(outcome), sentence or f"It was {outcome}.", tuple(given), evidence)


@cache
def needed(name):
    """The checks that rows need of an experiment."""
    return dict.fromkeys(
        check for row in ROWS for need in row.needs for check in need.checks if name in names(need)
    )


def names(need):
    """The experiments of a need; one of each that stands for any parameter."""
    return [name.replace("[*]", "[aws]") for name in need.experiments]


def trial(name, outcome="pass", *, verdicts=None, gap="", **fields):
    """An experiment with one run of two ranks, which was held to every check that a row needs of it."""
    short = name.rpartition("::")[2]
    given = [verdict(check) for check in needed(name)] if verdicts is None else verdicts
    run = StoredRun(
        f"run-{short}", JOB, f"digest-{short}", tuple(given), frozenset({0, 1}),
        frozenset({SeenLoad("torch.load", "model.pt", True)}), 2,
    )  # fmt: skip
    known = {
        "nodeid": name, "job": JOB, "runs": (run.id,), "run": run.id, "steps_lost": 4, "recovery_seconds": 2.5,
        "noticed_seconds": 4.0, "stopped_seconds": 4.2, "saved_seconds": 0.9,
        "sentences": () if outcome == "pass" else (f"{short} was {outcome}.",),
    }  # fmt: skip
    return TriedExperiment(Result(short, outcome, **{**known, **fields}), "suite", (run,), gap)


@cache
def every_trial():
    """All experiments that rows need, all passed."""
    return {name: (trial(name),) for row in ROWS for need in row.needs for name in names(need)}


COST = CheckpointCost(2, (SaveCost("torch.save", 5, True, False, 10.0, 10.0, 10**6),), 600.0, 1.0)
MAP = SdcShare("run-map", "digest-map", 400, 4, 0.01, 0.004, 0.025)


def evidence(trials=None, **fields):
    """ReadinessEvidence that proves every row; `trials` replaces experiments, or with None takes them out."""
    found = dict(every_trial())
    for name, one in (trials or {}).items():
        if one is None:
            del found[name]
        else:
            found[name] = one if isinstance(one, tuple) else (one,)
    known = {
        "nodes": Nodes(1, 2),
        "costs": (COST,),
        "maps": (MAP,),
        "demands": Demands(mtbf_seconds=5 * 3600.0, interval_seconds=600.0),
    }
    return ReadinessEvidence(JOB, trials=found, **{**known, **fields})


def states(one):
    """The state of each row by its id."""
    return {row.id: row for row in judge(one)}


def codes_of(check):
    """The codes that a check may give, those of the checks that it passes on too."""
    for one in CODES_OF[check]:
        if one in CODES:
            yield one
        elif one in CODES_OF:
            yield from codes_of(one)
        else:
            yield from (code for code in CODES if FAMILIES[code] == one)


def refuting(row, check):
    """A code with which the check refutes the claim of the row."""
    return next(code for code in row.codes or codes_of(check) if FAMILIES[code] != "inconclusive")


def project(path):
    """A directory with the job's only file; returns what conditions say of it."""
    path.mkdir(exist_ok=True)
    (path / "train.py").write_text("print('a job')\n")
    digest = blake2b((path / "train.py").read_bytes(), digest_size=16).hexdigest()
    return Conditions({}, {"train.py": digest[:8]})


def stored(store, home, names=("test_resume.py::test_resume",), *, conditions=None, created=None, **fields):
    """A suite in the archive, each of its experiments with a stored run; returns it as the archive reads it."""
    store = Store(store)
    conditions = project(Path(home)) if conditions is None else conditions
    job = Job.from_command(["torchrun", "train.py", "--out", "{out}"], cwd=str(home))
    results = []
    for name in names:
        run = store.new_run(job=job.to_json(), experiment=name, reference="ref")
        store.write_verdicts(run, checks=[], verdicts=[verdict(check) for check in needed(name)])
        store.finish(run, "finished")
        given = trial(name).result
        results.append(replace(given, job=job.text, runs=(str(run),), run=str(run), references=("ref",)))
    moment = created or datetime.now(UTC)
    known = {"chaoskit": __version__, "machine": machine(), "command": ("chaoskit", "run")}
    id = fields.pop("id", f"{moment:%Y%m%d-%H%M%S}-{next(_COUNT)}")
    writer = Writer(Archive(store), Suite(id, moment.isoformat(), results=(), **{**known, **fields}), since=0.0)
    for one in results:
        writer.add(one, conditions)
    writer.end(fields.get("status", "finished"))
    read = Archive(store).read(writer.path)
    assert {key_of(one) for one in read.results} == set(names)
    return read
