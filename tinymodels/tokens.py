"""The tokens: a synthetic language or a text, what is held out, and how rows become batches.

train.py decides which rows come when (`Data`).
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

from tinymodels.config import Config
from tinymodels.preemption.exits import Refused

HELD_OUT = 64  # samples


class Tokens(Dataset[torch.Tensor]):
    """Rows of context + 1 tokens: all but the last are the input, all but the first the target."""

    def __init__(self, rows: torch.Tensor, vocabulary: int) -> None:
        self.rows, self.vocabulary = rows, vocabulary

    @classmethod
    def language(
        cls, samples: int, context: int, seed: int, vocabulary: int = 32, *, held_out: bool = False
    ) -> "Tokens":
        """Generate a language with a grammar: two tokens determine the third, in nine of ten cases.

        With `held_out`, the samples are others of the same language.
        """
        generator = torch.Generator().manual_seed(seed)  # of its own: the global stream is not touched
        grammar = torch.randint(vocabulary, (vocabulary, vocabulary), generator=generator)
        if held_out:
            generator.manual_seed(~seed)
        rows = torch.randint(vocabulary, (samples, context + 1), generator=generator)
        obeys = torch.rand(samples, context + 1, generator=generator) < 0.9
        for t in range(2, context + 1):
            ruled = grammar[rows[:, t - 2], rows[:, t - 1]]
            rows[:, t] = torch.where(obeys[:, t], ruled, rows[:, t])
        return cls(rows, vocabulary)

    @classmethod
    def text(cls, path: Path, context: int) -> "Tokens":
        """Read the bytes of a file, cut into rows. Neighbouring rows share one byte."""
        content = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8).long()
        if len(content) <= context:
            raise ValueError(f"{path} holds {len(content)} bytes: a row needs {context + 1}")
        return cls(content.unfold(0, context + 1, context).contiguous(), 256)

    def cut(self, at: int) -> tuple["Tokens", "Tokens"]:
        """Return the first rows, and the rest."""
        return Tokens(self.rows[:at], self.vocabulary), Tokens(self.rows[at:], self.vocabulary)

    def digest(self) -> str:
        """Return a digest of the tokens: a run must not resume on another text."""
        return hashlib.blake2b(self.rows.numpy().data, digest_size=16).hexdigest()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.rows[index]

    def __getitems__(self, indices: list[int]) -> torch.Tensor:
        """Return a whole batch at once, which may be empty. DataLoader prefers this method."""
        return self.rows[indices]


def batches(tokens: Tokens, indices: list[list[int]], workers: int, seed: int) -> Iterator[torch.Tensor]:
    """Yield the rows with these indices, batch by batch.

    A DataLoader draws a seed for its workers. It draws it from a generator of its own here. By default it draws from
    the global stream, and dropout would depend on how often an iterator was created.
    """
    generator = torch.Generator().manual_seed(seed)
    loader = DataLoader(
        tokens, batch_sampler=indices, num_workers=workers, collate_fn=unchanged, generator=generator
    )
    return iter(loader)


def unchanged(batch: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Collate nothing: `__getitems__` returns a batch already. (Workers could not pickle a lambda.)"""
    return batch


def add_noise(rows: torch.Tensor, noise: float, vocabulary: int) -> torch.Tensor:
    """Replace a random share of the tokens, `noise` on average.

    It draws from the global streams of `random` and numpy, as careless augmentation does. So an exact resume has to
    restore these streams on every rank.
    """
    if not noise:
        return rows
    share = random.uniform(0.0, 2 * noise)
    hit = torch.from_numpy(numpy.random.random(rows.shape) < share)
    other = torch.from_numpy(numpy.random.randint(vocabulary, size=rows.shape))
    return torch.where(hit, other, rows)


def load_tokens(config: Config) -> tuple[Tokens, Tokens]:
    """Return the tokens to train on, and those to evaluate on."""
    try:
        if config.text is None:
            tokens = Tokens.language(config.samples, config.context, config.seed)
        else:
            tokens = Tokens.text(config.text, config.context)
        return hold_out(tokens, config)
    except ValueError as problem:
        raise Refused(str(problem)) from None


def hold_out(tokens: Tokens, config: Config) -> tuple[Tokens, Tokens]:
    """Return the tokens to train on, and those to evaluate on (none without evaluations).

    Of the synthetic language, more samples are generated. Of a text, the end is held out: at most a tenth.
    """
    if not config.evaluate_every:
        return tokens.cut(len(tokens))
    if config.text is None:
        return tokens, Tokens.language(HELD_OUT, config.context, config.seed, held_out=True)
    if len(tokens) < 2:
        raise ValueError(f"{config.text} is too short to hold a part of it out")
    return tokens.cut(len(tokens) - max(1, min(HELD_OUT, len(tokens) // 10)))
