"""The sittings of the gallery's exam: who sits in which experiments, with which arguments, and what is typed for it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tinymodels.gallery.catalogue import CRASH_STATES, Mutant, Sound

GOOD = "tinymodels.train"
MEETING = "join_timeout=120,last_call_timeout={last_call},keep_alive_interval=1"
#: With torch 2.13 an agent that joins a running job otherwise waits in vain to be told where the ranks meet.
SURROUNDINGS = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
#: Where a container finds this checkout.
IN_CONTAINER = "/repository"
#: How often a job is shown what a crash has left of its save: the states differ, and few of them must show it.
VISITS = 60


@dataclass(frozen=True)
class Sitting:
    """One trainer, with its arguments, in some experiments, on so many nodes; or in `CRASH_STATES`, and in nothing
    besides. `slug` is empty for the good one and for others that are right (`module`). It sits under `load`, and again
    in another `turn`. Several nodes are those of the environment `env`."""

    slug: str
    module: str
    args: tuple[str, ...]
    options: tuple[str, ...]
    experiments: tuple[str, ...]
    nodes: str = "1"
    load: bool = False
    turn: int = 1
    env: str = "netns"

    def command(self, store: Path, answer: Path, launch: str, windows: str = "auto") -> list[str]:
        """What a user would type, without proofs: the answers have verdicts and codes alone."""
        which: tuple[str, ...] = ("crash-states", "--visits", str(VISITS))
        if not self.crashes:
            which = ("run", "-k", " or ".join(self.experiments), "--windows", windows)
        return [
            *(str(BIN / "chaoskit"), *which, "--dir", str(store), "--json", str(answer), "--launch", launch),
            *(*(() if self.crashes else ("-n", "1", "--no-proof")), *self.options, *self._where(), "--"),
            *(self._torchrun(), *self._shape(), "-m", self.module, "--out", "{out}", *self.args),
        ]

    @property
    def crashes(self) -> bool:
        """Whether it is shown what crashes leave."""
        return CRASH_STATES in self.experiments

    @property
    def in_containers(self) -> bool:
        """Whether its nodes are containers, or pods."""
        return self.nodes != "1" and self.env in ("docker", "kubernetes")

    def _where(self) -> tuple[str, ...]:
        return () if self.nodes == "1" else ("--env", self.env, "--nodes", self.nodes)

    def _torchrun(self) -> str:
        return "torchrun" if self.in_containers else str(BIN / "torchrun")

    def _shape(self) -> tuple[str, ...]:
        """Two ranks: on one node, or one on each; agents that may meet again do so soon."""
        if self.nodes == "1":
            return ("--nproc-per-node", "2")
        # Agents in two containers import torch apart from each other: a busy machine has one wait for the other.
        meeting = MEETING.format(last_call=5 if self.in_containers else 1)
        again = ("--max-restarts", "5", "--rdzv-conf", meeting) if ":" in self.nodes else ()
        return ("--nproc-per-node", "1", *again)

    @property
    def name(self) -> str:
        """For people."""
        right = "good" if self.module == GOOD else self.module.rpartition(".")[2]
        return self.slug or " ".join([right, *self.args, *(["under load"] if self.load else [])])


def configuration(image: str, cluster: Mapping[str, str] | None = None, *, code: str = IN_CONTAINER) -> str:
    """The `chaoskit.toml` of sittings in containers of this image, or in the pods of a cluster with these settings,
    which find the trainers in `code`: what they do not have by themselves."""
    variables = "".join(f'{name} = "{value}"\n' for name, value in {"PYTHONPATH": code, **SURROUNDINGS}.items())
    where = f'mount = ["{ROOT}:{code}:ro"]\n'
    if cluster is not None:
        where = "".join(f'{name} = "{value}"\n' for name, value in cluster.items())
    return f'image = "{image}"\n{where}\n[variables]\n{variables}'


def sittings(
    chosen: Sequence[Mutant],
    *,
    every: Sequence[str],
    controls: bool,
    right: Sequence[Sound] = (),
    env: str = "netns",
) -> list[Sitting]:
    """The mutants' own, longest first, those of the good trainer with all arguments under which it passes the same
    experiments, and those of the trainers that look broken and are `right`. Those on several nodes sit in the
    environment `env`."""
    found = [
        Sitting(m.slug, m.module, m.args, m.options, names, m.nodes, env=env)
        for m in chosen
        for names in _apart(tuple(every) or (*m.caught_by, *m.equivalent))
    ]
    if controls:
        asked: dict[tuple[tuple[str, ...], tuple[str, ...], str], dict[str, None]] = {}
        good = {m.slug: m.good_args for m in chosen}
        for one in found:
            # A deadline is for those that hang.
            where = (good[one.slug], _without_deadline(one.options), one.nodes)
            asked.setdefault(where, {}).update(dict.fromkeys(one.experiments))
        found += [
            Sitting("", GOOD, args, options, those, nodes, env=env)
            for (args, options, nodes), names in asked.items()
            for those in _apart(tuple(names))
        ]
        found += [Sitting("", one.module, one.args, (), tuple(every) or one.silent_in) for one in right]
    return sorted(found, key=lambda one: -len(one.experiments))


def _apart(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Experiments, and what is a command of its own."""
    experiments = tuple(name for name in names if name != CRASH_STATES)
    crashes = tuple(name for name in names if name == CRASH_STATES)
    return [those for those in (experiments, crashes) if those]


def _without_deadline(options: tuple[str, ...]) -> tuple[str, ...]:
    kept = list(options)
    if "--timeout" in kept:
        at = kept.index("--timeout")
        del kept[at : at + 2]
    return tuple(kept)
