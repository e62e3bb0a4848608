"""The data: something to learn, in an order of its own for each epoch, from any position on.

The position counts samples over all ranks. It is moved by the training loop, when a group of
micro-batches has really been used for a step: never by a loader that reads ahead.

Order and position know nothing of ranks. So with --global-batch, which fixes the size of a step too,
a step has the same samples however many ranks share them, and a run may change its ranks half-way.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

from tinymodels.config import Config
from tinymodels.endings import Refused
from tinymodels.world import World


class Tokens(Dataset[torch.Tensor]):
    """Rows of context + 1 tokens: all but the last are input, all but the first are target."""

    def __init__(self, rows: torch.Tensor, vocabulary: int) -> None:
        self.rows, self.vocabulary = rows, vocabulary

    @classmethod
    def language(
        cls, samples: int, context: int, seed: int, vocabulary: int = 32, *, unheard: bool = False
    ) -> "Tokens":
        """A language with a grammar to find out: two tokens foretell the third, mostly.

        `unheard`: other samples of the same language than without it.
        """
        generator = torch.Generator().manual_seed(seed)  # its own: nobody else's dice are thrown
        grammar = torch.randint(vocabulary, (vocabulary, vocabulary), generator=generator)
        if unheard:
            generator.manual_seed(~seed)
        rows = torch.randint(vocabulary, (samples, context + 1), generator=generator)
        obeys = torch.rand(samples, context + 1, generator=generator) < 0.9
        for t in range(2, context + 1):
            ruled = grammar[rows[:, t - 2], rows[:, t - 1]]
            rows[:, t] = torch.where(obeys[:, t], ruled, rows[:, t])
        return cls(rows, vocabulary)

    @classmethod
    def text(cls, path: Path, context: int) -> "Tokens":
        """The bytes of a file, cut into rows that share one byte with the next."""
        content = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8).long()
        if len(content) <= context:
            raise ValueError(f"{path} holds {len(content)} bytes: a row needs {context + 1}")
        return cls(content.unfold(0, context + 1, context).contiguous(), 256)

    def cut(self, at: int) -> tuple["Tokens", "Tokens"]:
        """The first rows, and the rest."""
        return Tokens(self.rows[:at], self.vocabulary), Tokens(self.rows[at:], self.vocabulary)

    def digest(self) -> str:
        """Tells these tokens from any others: a run must not resume on another text."""
        return hashlib.blake2b(self.rows.numpy().data, digest_size=16).hexdigest()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.rows[index]

    def __getitems__(self, indices: list[int]) -> torch.Tensor:
        """A whole batch at once, an empty one too. DataLoader prefers this where it exists."""
        return self.rows[indices]


@dataclass(frozen=True)
class Group:
    """What one rank contributes to one optimizer step."""

    batches: list[torch.Tensor]
    samples: int  # over all ranks: what the loss is divided by


class Data:
    """The samples of a run, shared out among the ranks, and how far they have been used."""

    def __init__(self, tokens: Tokens, config: Config, world: World) -> None:
        self.tokens, self.world, self.seed = tokens, world, config.seed
        self.noise, self.workers, self.epochs = config.noise, config.workers, config.epochs
        self.chunk = config.batch * world.size  # samples in a micro-batch, all ranks together
        self.stride = self.chunk * self.micro_batches(config)  # samples in a full group
        self.epoch = 0
        self.position = 0
        self.skipped: frozenset[tuple[int, int]] = frozenset()  # epoch and position of groups that did harm

    def micro_batches(self, config: Config) -> int:
        """How many of them make a full group: to keep a global batch, fewer ranks have to take more."""
        if not config.global_batch:
            return config.accumulate
        count, rest = divmod(config.global_batch, self.chunk)
        if rest:
            raise Refused(
                f"--global-batch {config.global_batch} cannot be shared out: {self.world.size} ranks "
                f"with --batch {config.batch} take {self.chunk} samples at a time"
            )
        return count

    @property
    def steps(self) -> int:
        """Optimizer steps in the whole run; the last group of an epoch may be a short one."""
        return self.epochs * -(-len(self.tokens) // self.stride)

    def order(self, epoch: int) -> list[int]:
        """The epoch's order: a function of seed and epoch alone, so it can be had again."""
        generator = torch.Generator().manual_seed(self.seed + epoch)
        return torch.randperm(len(self.tokens), generator=generator).tolist()

    def remaining(self) -> list[list[int]]:
        """This rank's micro-batches in the rest of the epoch.

        Of each chunk every rank takes its share. The last chunk may be short: then shares differ
        by one, and may even be empty. An empty batch is harmless, since losses are *summed* and
        divided by the samples of the whole group; every sample weighs the same, wherever it is.
        """
        order = self.order(self.epoch)
        starts = range(self.position, len(order), self.chunk)
        return [order[at : at + self.chunk][self.world.rank :: self.world.size] for at in starts]

    def groups(self) -> Iterator[Group]:
        """The rest of this epoch, one optimizer step at a time."""
        loader = DataLoader(
            self.tokens,
            batch_sampler=self.remaining(),
            num_workers=self.workers,
            collate_fn=as_it_is,
            # A loader draws a seed for its workers. Out of its own generator, please: by default
            # it is the model's, and dropout would depend on how often an iterator was made.
            generator=torch.Generator().manual_seed(self.seed + self.epoch),
        )
        batches, at = iter(loader), self.position
        while at < len(self.tokens):
            size = min(self.stride, len(self.tokens) - at)
            rows = list(islice(batches, -(-size // self.chunk)))
            if (self.epoch, at) in self.skipped:
                self.used(Group([], size))  # no step, and no dice thrown for it
            else:
                yield Group([self.corrupt(b) for b in rows], size)
            at += size

    def used(self, group: Group) -> None:
        """The group has become a step. A finished epoch is at once the start of the next."""
        self.position += group.samples
        if self.position >= len(self.tokens):
            self.epoch, self.position = self.epoch + 1, 0

    def corrupt(self, rows: torch.Tensor) -> torch.Tensor:
        """With --noise, put random tokens among the inputs: augmentation, as the careless do it.

        It draws from the global streams of `random` and numpy, so an exact resume has to restore
        those of every rank. (It runs in the rank itself: workers have streams of their own.)
        """
        if not self.noise:
            return rows
        share = random.uniform(0.0, 2 * self.noise)
        hit = torch.from_numpy(numpy.random.random(rows.shape) < share)
        other = torch.from_numpy(numpy.random.randint(self.tokens.vocabulary, size=rows.shape))
        return torch.where(hit, other, rows)

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.epoch, self.position = saved["epoch"], saved["position"]


def as_it_is(batch: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Nothing to collate: `__getitems__` has made a batch already. (A lambda can't be pickled.)"""
    return batch
