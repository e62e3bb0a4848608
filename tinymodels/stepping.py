"""One optimizer step: forward and backward, a judgement, and the update if all ranks find it a good one."""

import time
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from tinymodels.config import Config
from tinymodels.data import Group
from tinymodels.endings import NotFinite
from tinymodels.guard import Guard
from tinymodels.precision import agree_on_overflow, autocast
from tinymodels.rollback import Samples
from tinymodels.state import State
from tinymodels.world import World


class Stepping:
    """The part of `Trainer` that takes steps."""

    config: Config
    world: World
    model: nn.Module
    state: State
    judge: Guard
    bad: list[Samples]  # what the last steps consisted of, as long as each of them was a bad one
    evidence: dict[str, Any]  # of the last step, for the post-mortem

    def step(self, group: Group) -> float:
        """One optimizer step; the mean loss, over all ranks."""
        state, config = self.state, self.config
        time.sleep(config.step_delay)
        share = torch.zeros((), device=self.world.device)
        for i, rows in enumerate(group.batches):
            last = i == len(group.batches) - 1
            # Where the number of ranks may change, so may that of the micro-batches a step: the model
            # must not notice, and counts steps.
            self.unwrapped.counts = i == 0 or not config.global_batch  # type: ignore[assignment]
            with self.exchange(last):
                share += self.micro_step(rows, group)
        state.scaler.unscale_(state.optimizer)
        agree_on_overflow(state.scaler, state.optimizer, self.world)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), config.clip)
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        loss = self.world.total(share)
        self.evidence = {"step": state.progress.step + 1, "batch": group.batches, "loss": loss, "norm": norm}
        if self.guard(loss, norm):
            self.bad.append((state.data.epoch, state.data.position, group.samples))
        else:
            self.bad.clear()
            self.update(loss)
        state.scaler.update()
        state.optimizer.zero_grad(set_to_none=True)
        state.scheduler.step()
        state.progress.step += 1
        state.progress.tokens += group.samples * config.context
        state.data.used(group)
        return loss

    def guard(self, loss: float, norm: torch.Tensor) -> bool | None:
        """Nothing bad may get into the weights: from there it never goes away. True: leave the update out.

        All ranks come to the same judgement (see guard.py): all of them raise, or none.
        """
        state, config = self.state, self.config
        if config.on_nonfinite == "off":
            return False
        problem = self.judge(state.progress.step + 1, loss, norm, state.scaler, state.memory)
        if problem is None:
            return False
        if config.on_nonfinite == "stop" and not config.rollback_after:
            raise NotFinite(problem)
        self.world.say(f"left out: {problem}")
        return True

    def update(self, loss: float) -> None:
        """The step is a good one: take it."""
        state = self.state
        state.scaler.step(state.optimizer)
        state.average.update_parameters(self.unwrapped)
        if self.config.spike:
            state.memory.note(loss)

    def micro_step(self, rows: torch.Tensor, group: Group) -> torch.Tensor:
        """Forward and backward. Sums over tokens, divided by the tokens of the whole group."""
        with autocast(self.config, self.world):
            total = self.model(rows.to(self.world.device))
        share = total / (group.samples * self.config.context)
        # DDP and FSDP take the mean over the ranks where we want the sum.
        self.state.scaler.scale(share * self.world.size).backward()
        return share.detach()

    def exchange(self, last: bool) -> Any:
        """Gradients travel with the last micro-batch of a group; before it, they add up here."""
        if self.config.parallel == "fsdp":
            self.model.set_requires_gradient_sync(last)  # type: ignore[operator]
            return nullcontext()
        return nullcontext() if last else self.model.no_sync()  # type: ignore[operator]

    @property
    def unwrapped(self) -> nn.Module:
        """The model without DDP around it."""
        return self.model if self.config.parallel == "fsdp" else self.model.module  # type: ignore[return-value]
