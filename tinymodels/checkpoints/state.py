"""Everything that the next step depends on, and how each part of it is saved and restored.

Each part has two small methods, `save_x` and `restore_x`. There are three kinds:

    sharded   tensors that the ranks hold together     model (with its buffers), optimizer, average
    shared    small values, equal on all ranks         schedule, scaler, data position, progress,
                                                       early stopping, the memory of the guard
    local     different on each rank                   the streams of random numbers

If a checkpoint lacks one of them, training goes on as if nothing had happened. That makes such a bug hard to notice.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

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

from tinymodels.evaluation import Stopping
from tinymodels.numbers.determinism import restore_streams, save_streams, seed_everything, seed_of_new_rank
from tinymodels.numbers.guard import Memory

Saved = dict[str, Any]


@dataclass
class Progress:
    """How far the run has come."""

    step: int = 0
    tokens: int = 0


class DataPosition(Protocol):
    """The position in the data (train.py has the `Data` of a run)."""

    seed: int
    epoch: int
    position: int

    def state_dict(self) -> Saved: ...
    def load_state_dict(self, saved: Saved) -> None: ...


@dataclass(kw_only=True)
class State:
    """The live objects of a run. Nothing here is a copy."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    average: AveragedModel
    scheduler: LRScheduler
    scaler: torch.amp.GradScaler
    data: DataPosition
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
        """Comes last: whatever is built or loaded before may draw random numbers."""
        self.restore_rng(saved["rng"])

    def start_local(self, rank: int) -> None:
        """Seed the streams of a rank that did not exist when the checkpoint was saved."""
        seed_everything(seed_of_new_rank(self.data.seed, rank, self.progress.step))

    def notes(self) -> Saved:
        """Return what retention needs: the epoch of the last step, and the loss if it is the best so far."""
        epoch = self.data.epoch - (self.data.position == 0)  # at position 0 the data is at the next epoch already
        best = self.stopping.step == self.progress.step and not self.stopping.bad
        return {"epoch": epoch, "loss": self.stopping.best if best and self.progress.step else None}

    # Sharded. torch names the entries after the parameters of the bare model, whatever wraps it.

    def save_model(self) -> Saved:
        return get_model_state_dict(self.model)

    def restore_model(self, saved: Saved) -> None:
        set_model_state_dict(self.model, saved)

    def save_optimizer(self) -> Saved:
        """Return moments, step counts, and the groups with their current learning rates.

        If the optimizer has not stepped yet, torch creates its state by a step with zero gradients and rates. So a
        resumed process takes one step more, without effect.
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
        """Return an entry only if there is something to remember: most runs have no bad steps."""
        return {} if self.memory == Memory() else {"memory": self.memory.state_dict()}

    def restore_memory(self, saved: Saved | None) -> None:
        self.memory.load_state_dict(saved or Memory().state_dict())

    # Local.

    def save_rng(self) -> Saved:
        return save_streams(self.device)

    def restore_rng(self, saved: Saved) -> None:
        restore_streams(saved, self.device)
