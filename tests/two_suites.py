"""Suites as a test needs them: some experiments, what they were held to, how long they took."""

import struct

from chaoskit.engine.result import Result
from chaoskit.studies.nights.baseline import Baseline
from chaoskit.studies.nights.suite import Suite

STEPS, RANKS = 12, 2
SETTINGS = {"torch": "2.13.0", "threads": "1"}
MACHINE = {"host": "vm", "python": "3.11.7", "cores": "2"}


def float32(value):
    """The nearest number of float32."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def next_float32(value, by=1):
    """The positive number of float32 so many places further."""
    (place,) = struct.unpack("<i", struct.pack("<f", value))
    return struct.unpack("<f", struct.pack("<i", place + by))[0]


def baseline(*, losses=None, models=None, steps=STEPS, ranks=RANKS, **fields):
    """A reference; `losses` and `models` set single values by (rank, step)."""
    told = {
        rank: {
            "loss": [
                (losses or {}).get((rank, step), float32(1 / (step + rank)).hex()) for step in range(1, steps + 1)
            ],
            "model": [(models or {}).get((rank, step), f"{step:032x}") for step in range(1, steps + 1)],
            "rng.python": [f"{rank:032x}"] * steps,
        }
        for rank in range(ranks)
    }
    known = {"deterministic": True, "settings": SETTINGS, **fields}
    return Baseline(("train.py",), steps, ranks=told, **known)


def drifted(old, *, since, by=lambda step: 1, ranks=(0,), **fields):
    """The same reference with other losses: from a step on, `by(step)` ulps of float32 further."""
    told = {
        rank: {
            name: [
                next_float32(float.fromhex(value), by(step)).hex()
                if name == "loss" and rank in ranks and step >= since and value
                else value
                for step, value in enumerate(column, start=1)
            ]
            for name, column in columns.items()
        }
        for rank, columns in old.ranks.items()
    }
    return Baseline(old.job, old.steps, old.deterministic, told, settings=fields.get("settings", old.settings))


def result(name, verdict="pass", *codes, **fields):
    """One experiment, held to the reference `ref` and launched warm."""
    known = {
        "nodeid": f"test_it.py::{name}", "job": "python train.py", "references": ("ref",), "launched": ("warm",),
        "launch_seconds": 1.0, "recovery_seconds": 2.0, "step_seconds": 0.01,
        "sentences": () if verdict == "pass" else (f"It was {verdict}.",),
    }  # fmt: skip
    return Result(name, verdict, codes, **{**known, **fields})


def suite(*results, **fields):
    """A finished one; the reference `ref` is kept unless `baselines` says otherwise."""
    known = {
        "baselines": {"ref": baseline()}, "chaoskit": "0.1.0", "machine": MACHINE, "seconds": 10.0,
        "created": "2026-11-22T10:35:52.193+00:00",
    }  # fmt: skip
    id = fields.pop("id", "20261122-103552-1938e63")
    return Suite(id, command=("chaoskit", "run"), results=results, **{**known, **fields})
