"""Explain a hang from the stacks: in which collective each rank waits, and where in the job's own code.

Pure text, in the forms of faulthandler and of traceback. What a stack cannot show is not guessed at: a collective
that was started asynchronously is waited for inside native code, and there the rank is only seen to be at its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Key = TypeVar("Key")

_THREAD = re.compile(r"(?m)^(?=(?:Current )?[Tt]hread )")
_FRAME = re.compile(r'\bFile "([^"]+)", line (\d+),? in (\S+)')
#: Code that is not the job's own; some jobs are installed themselves, and then only torch and Python are not.
_TORCH_OR_PYTHON = re.compile(
    r"/(?:site|dist)-packages/torch/|/torch/(?:autograd|distributed|nn|optim|utils)/|/torch/_\w+\.py$"
    r"|/lib(?:64)?/python3\.\d+/(?!(?:site|dist)-packages/)|^<frozen |/chaoskit/(?:probe|launch|environments)/"
)
_INSTALLED = re.compile(r"/(?:site|dist)-packages/")
#: Exchanges between two ranks, which are not in the same function when all is well.
_PAIRS = re.compile(r"i?send|i?recv|batch_isend_irecv")
#: Where ranks wait for each other: a file of torch's, its functions, and what that is called.
_WAITS = tuple(
    (re.compile(path), re.compile(functions), name)
    for path, functions, name in (
        (
            r"/torch/distributed/(?:distributed_c10d|_functional_collectives)\.py$",
            r"(?:all_reduce|all_gather|all_to_all|barrier|broadcast|gather|monitored_barrier|reduce|reduce_scatter"
            r"|scatter|i?send|i?recv|batch_isend_irecv|wait_tensor|init_process_group|new_group"
            r"|destroy_process_group)(?:_\w+)?$",
            "{}",
        ),
        (r"/torch/distributed/rendezvous\.py$", r"\w*$", "the rendezvous"),
        (
            r"/torch/distributed/checkpoint/utils\.py$",
            r"(?:all_gather|all_reduce|broadcast|gather|reduce_scatter|scatter)(?:_object)?$",
            "{} of the checkpoint's planning",
        ),
        (
            r"/torch/autograd/(?:__init__|graph)\.py$",
            r"(?:_engine_run_)?backward$",
            "the gradient exchange of backward",
        ),
        (
            r"/torch/nn/parallel/distributed\.py$",
            r"_sync_(?:module_)?buffers$",
            "the exchange of buffers in DDP's forward",
        ),
        (r"/torch/nn/parallel/distributed\.py$", r"__init__$", "the construction of DDP"),
    )
)


@dataclass(frozen=True)
class Frame:
    """One line of a stack: 'train.py:41 in step'."""

    path: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.path.rpartition('/')[2]}:{self.line} in {self.function}"

    @property
    def waits(self) -> str | None:
        """The collective in which ranks wait for each other, if this frame is torch's function for it."""
        for path, functions, name in _WAITS:
            if path.search(self.path) and functions.match(self.function):
                return name.format(self.function)
        return None


@dataclass(frozen=True)
class Waiting:
    """Where a rank stands: `where` in the job's own code, `at` in whatever that called. `collective` is what it waits
    in, None if it does not wait for other ranks."""

    collective: str | None
    where: str
    at: str


def waits_in(stack: str) -> Waiting | None:
    """Where the main thread of a rank stands; None for a text that holds no stack."""
    frames = _frames(stack)
    if not frames:
        return None
    theirs = [frame for frame in frames if not _TORCH_OR_PYTHON.search(frame.path)]
    own = next((frame for frame in theirs if not _INSTALLED.search(frame.path)), next(iter(theirs), frames[-1]))
    called = frames[: frames.index(own)]
    # The outermost is what the job called: broadcast_object_list, not the broadcast that it is made of.
    collective = next((name for frame in reversed(called) if (name := frame.waits)), None)
    return Waiting(collective, str(own), str(frames[0]))


def explain(stacks: Mapping[int, str]) -> str:
    """Return one clause: the collective in which each rank waits, and whether it is the same one. An empty text is a
    rank that left no stack."""
    waits = {rank: waits_in(stack) for rank, stack in stacks.items()}
    if not any(stack.strip() for stack in stacks.values()):
        return "no rank left a stack"
    inside = {rank: (own.collective, own.where) for rank, own in waits.items() if own and own.collective}
    if len(inside) == len(stacks) > 1 and len(set(inside.values())) == 1:
        collective, where = next(iter(inside.values()))
        return f"all ranks wait in {collective} ({where})"
    parts: list[str] = []
    for (collective, where), ranks in _grouped(inside).items():
        verb = "" if parts else " waits" if len(ranks) == 1 else " wait"
        parts.append(f"{_named(ranks)}{verb} in {collective} ({where})")
    elsewhere = {rank: _elsewhere(waits[rank], stacks[rank]) for rank in stacks if rank not in inside}
    parts += [f"{_named(ranks)} {said}" for said, ranks in _grouped(elsewhere).items()]
    seen = [rank for rank in elsewhere if waits[rank] is not None]
    return ", ".join(parts) + _conclusion([collective for collective, _ in inside.values()], seen)


def _conclusion(collectives: Sequence[str], elsewhere: Sequence[int]) -> str:
    """Return the conclusion for ranks that wait in these collectives and for ranks elsewhere."""
    if all(_PAIRS.match(collective) for collective in collectives):
        return ""  # one sends, another receives, and who waits for whom is not to be seen
    if len(set(collectives)) > 1:
        return ": the ranks are in different collectives"
    if elsewhere:
        return f": {_named(elsewhere)} {'was' if len(elsewhere) == 1 else 'were'} not seen in it"
    return ": the same collective, called from different places" if len(collectives) > 1 else ""


def _elsewhere(own: Waiting | None, stack: str) -> str:
    """Describe a rank that is in no collective; the probe's environment says 'stopped (SIGSTOP)'."""
    if own is not None:
        return f"at {own.where}" + (f", inside {own.at}" if own.at != own.where else "")
    return stack.strip().splitlines()[-1].strip() if stack.strip() else "left no stack"


def _grouped(ranks: Mapping[int, Key]) -> dict[Key, list[int]]:
    groups: dict[Key, list[int]] = {}
    for rank, key in sorted(ranks.items()):
        groups.setdefault(key, []).append(rank)
    return groups


def _named(ranks: Iterable[int]) -> str:
    """'rank 1', 'ranks 0, 2 and 3', 'ranks 0 to 6'."""
    numbers = sorted(ranks)
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"ranks {numbers[0]} to {numbers[-1]}"
    return f"ranks {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _frames(stack: str) -> list[Frame]:
    """The frames of the main thread, the innermost first."""
    # faulthandler prints the main thread last, and in each thread the innermost frame first.
    sections = [section for section in _THREAD.split(stack) if _FRAME.search(section)]
    if not sections:
        return []
    frames = [Frame(path, int(line), function) for path, line, function in _FRAME.findall(sections[-1])]
    return frames if "most recent call first" in sections[-1] else frames[::-1]
