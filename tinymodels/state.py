"""The whole anatomy of a run: everything that the next step depends on, and how to put it back.

Each component has two small methods, `save_x` and `restore_x`. They fall into three kinds:

    sharded   tensors that the ranks hold together     model (with its buffers), optimizer, average
    shared    small things that are equal everywhere   schedule, scaler, data position, progress,
                                                       early stopping, the memory of the guard
    local     what differs from rank to rank           the streams of random numbers

Forget one, and training goes on as if nothing had happened. That is what makes it a nasty bug.
"""

import hashlib
import random
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import numpy
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.swa_utils import AveragedModel

from tinymodels.data import Data
from tinymodels.evaluation import Stopping
from tinymodels.guard import Memory

Saved = dict[str, Any]


@dataclass
class Progress:
    """How far the run has come."""

    step: int = 0
    tokens: int = 0


@dataclass(kw_only=True)
class State:
    """The live objects of a run. Nothing here is a copy."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    average: AveragedModel
    scheduler: LRScheduler
    scaler: torch.amp.GradScaler
    data: Data
    progress: Progress
    stopping: Stopping
    device: torch.device
    memory: Memory = field(default_factory=Memory)

    # The three kinds.

    def save_sharded(self) -> Saved:
        return {
            "model": self.save_model(),
            "optimizer": self.save_optimizer(),
            "average": self.save_average(),
        }

    def restore_sharded(self, saved: Saved) -> None:
        self.restore_model(saved["model"])
        self.restore_optimizer(saved["optimizer"])
        self.restore_average(saved["average"])

    def save_shared(self) -> Saved:
        return {
            "scheduler": self.save_scheduler(),
            "scaler": self.save_scaler(),
            "data": self.save_data(),
            "progress": self.save_progress(),
            "stopping": self.save_stopping(),
        } | self.save_memory()

    def restore_shared(self, saved: Saved) -> None:
        self.restore_scheduler(saved["scheduler"])
        self.restore_scaler(saved["scaler"])
        self.restore_data(saved["data"])
        self.restore_progress(saved["progress"])
        self.restore_stopping(saved["stopping"])
        self.restore_memory(saved.get("memory"))

    def save_local(self) -> Saved:
        return {"rng": self.save_rng()}

    def restore_local(self, saved: Saved) -> None:
        """Comes last: whatever was built or loaded before may have drawn random numbers."""
        self.restore_rng(saved["rng"])

    def start_local(self, rank: int) -> None:
        """Instead of `restore_local`, where a rank is new: it was not there when this was saved."""
        self.start_rng(rank)

    def notes(self) -> Saved:
        """What retention wants to know of this state: in which epoch, and how good, if it was the best so far."""
        epoch = self.data.epoch - (
            self.data.position == 0
        )  # of the last step: a finished epoch is the next one's start
        best = self.stopping.step == self.progress.step and not self.stopping.bad
        return {"epoch": epoch, "loss": self.stopping.best if best and self.progress.step else None}

    # Sharded: torch names the entries after the model's own parameters, whatever wraps it.

    def save_model(self) -> Saved:
        return get_model_state_dict(self.model)

    def restore_model(self, saved: Saved) -> None:
        set_model_state_dict(self.model, saved)

    def save_optimizer(self) -> Saved:
        """Moments and step counts, and the groups with their current learning rates.

        Asked of an optimizer that has not stepped yet, torch makes up its state by a step of its
        own, with gradients and rates of zero. So a resumed process takes one phantom step more.
        """
        return dict(get_optimizer_state_dict(self.model, self.optimizer))

    def restore_optimizer(self, saved: Saved) -> None:
        set_optimizer_state_dict(self.model, self.optimizer, saved)

    def save_average(self) -> Saved:
        return self.average.state_dict()

    def restore_average(self, saved: Saved) -> None:
        self.average.load_state_dict(saved)

    # Shared.

    def save_scheduler(self) -> Saved:
        return self.scheduler.state_dict()

    def restore_scheduler(self, saved: Saved) -> None:
        self.scheduler.load_state_dict(saved)

    def save_scaler(self) -> Saved:
        return self.scaler.state_dict()

    def restore_scaler(self, saved: Saved) -> None:
        self.scaler.load_state_dict(saved)

    def save_data(self) -> Saved:
        return self.data.state_dict()

    def restore_data(self, saved: Saved) -> None:
        self.data.load_state_dict(saved)

    def save_progress(self) -> Saved:
        return asdict(self.progress)

    def restore_progress(self, saved: Saved) -> None:
        self.progress.step, self.progress.tokens = saved["step"], saved["tokens"]

    def save_stopping(self) -> Saved:
        return asdict(self.stopping)

    def restore_stopping(self, saved: Saved) -> None:
        self.stopping.best, self.stopping.bad = saved["best"], saved["bad"]
        self.stopping.step = saved["step"]

    def save_memory(self) -> Saved:
        """Only where there is something to remember: most runs are never judged by it."""
        return {} if self.memory == Memory() else {"memory": self.memory.state_dict()}

    def restore_memory(self, saved: Saved | None) -> None:
        self.memory.load_state_dict(saved or Memory().state_dict())

    # Local.

    def save_rng(self) -> Saved:
        """Every stream that anyone might draw from, as plain numbers and tensors (no pickles)."""
        name, keys, position, has_gauss, cached = cast(tuple[Any, ...], numpy.random.get_state())
        saved: Saved = {
            "python": random.getstate(),
            "numpy": (name, torch.from_numpy(keys.copy()), position, has_gauss, cached),
            "torch": torch.get_rng_state(),
        }
        if self.device.type == "cuda":
            saved["cuda"] = torch.cuda.get_rng_state(self.device)
        return saved

    def restore_rng(self, saved: Saved) -> None:
        name, keys, position, has_gauss, cached = saved["numpy"]
        random.setstate(saved["python"])
        numpy.random.set_state((name, keys.numpy(), position, has_gauss, cached))
        torch.set_rng_state(saved["torch"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(saved["cuda"], self.device)

    def start_rng(self, rank: int) -> None:
        """Streams for a new rank: of its own, like no other's, and the same at each resume from here.

        A run that was never interrupted has other streams at this step, and with other ranks than
        it had, the samples meet other dropout masks in any case. So after a change of ranks losses
        agree in a band, and to the last bits only where nobody draws.
        """
        words = f"{self.data.seed} {rank} {self.progress.step}".encode()
        seed_everything(int.from_bytes(hashlib.blake2b(words, digest_size=7).digest(), "big"))


def seed_everything(seed: int) -> None:
    """Seed every stream that `save_rng` saves."""
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)  # CUDA's too
