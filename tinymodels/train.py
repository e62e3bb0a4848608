"""Train a tiny language model. Started again with the same --out, the run resumes where it was.

    torchrun --nproc-per-node 2 -m tinymodels.train --out runs/first
    python -m tinymodels.train --out runs/alone --model mlp
    torchrun --nnodes 1:4 ... -m tinymodels.train --out /shared/elastic --global-batch 64

Read this file from top to bottom: the data, what a run is built from, the loop, one step, saving and resuming, one
launch. The last of the three runs above may lose nodes and gain others: the ranks that are there share the same batch.

Exit codes: 0 the run has finished, 143 the rank was told to leave (SIGTERM) and has saved, 1 something is wrong.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from tinymodels.checkpoints.formats import export
from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.checkpoints.manifest import step_of
from tinymodels.checkpoints.state import Progress, State
from tinymodels.config import Config, parse
from tinymodels.elasticity.collective_io import StorageFailed
from tinymodels.elasticity.world import World
from tinymodels.evaluation import Evaluation, Stopping
from tinymodels.metrics import Metrics
from tinymodels.model import build, distribute
from tinymodels.numbers.checks import NumberChecks
from tinymodels.numbers.determinism import make_deterministic, seed_everything
from tinymodels.numbers.precision import agree_on_overflow, autocast, build_scaler
from tinymodels.optimizer import build_average, build_optimizer, build_scheduler
from tinymodels.preemption.exits import LaunchEnd, Preempted, Refused, Stopped, exit_at_once
from tinymodels.preemption.notices import watch_for
from tinymodels.preemption.signals import Preemption
from tinymodels.tokens import Tokens, add_noise, batches, load_tokens


@dataclass(frozen=True)
class Group:
    """What one rank contributes to one optimizer step: its micro-batches, each of rows of context + 1 tokens."""

    batches: list[torch.Tensor]
    samples: int  # of all ranks: the loss is divided by it


class Data:
    """The samples of the run in their order, and the position: how many of this epoch have become steps.

    Order and position do not depend on the ranks, so another number of ranks can continue the run.
    """

    def __init__(self, tokens: Tokens, config: Config, world: World) -> None:
        self.tokens, self.world = tokens, world
        self.seed, self.epochs, self.noise, self.workers = config.seed, config.epochs, config.noise, config.workers
        self.chunk = config.batch * world.size  # samples in one micro-batch, all ranks together
        self.stride = self.chunk * world.micro_batches(config)  # samples in one optimizer step
        self.epoch, self.position = 0, 0
        self.skipped: frozenset[tuple[int, int]] = frozenset()  # epoch and position of steps that rollbacks skip

    @property
    def steps(self) -> int:
        """Optimizer steps in the whole run. The last step of an epoch may have fewer samples."""
        return self.epochs * -(-len(self.tokens) // self.stride)

    def order(self, epoch: int) -> list[int]:
        """Shuffle an epoch. The order depends on seed and epoch only, so a resumed run computes it again."""
        generator = torch.Generator().manual_seed(self.seed + epoch)
        return torch.randperm(len(self.tokens), generator=generator).tolist()

    def remaining(self) -> list[list[int]]:
        """Return this rank's micro-batches in the rest of the epoch: of each chunk, every rank takes its share.

        The last chunk may be short. Then shares differ by one sample or are empty. The losses are *summed* and
        divided by the samples of the whole group, so every sample has the same weight all the same.
        """
        order = self.order(self.epoch)
        starts = range(self.position, len(order), self.chunk)
        return [order[at : at + self.chunk][self.world.rank :: self.world.size] for at in starts]

    def groups(self) -> Iterator[Group]:
        """Yield the rest of the epoch, one optimizer step at a time."""
        loaded = batches(self.tokens, self.remaining(), self.workers, self.seed + self.epoch)
        at = self.position
        while at < len(self.tokens):
            size = min(self.stride, len(self.tokens) - at)
            rows = list(islice(loaded, -(-size // self.chunk)))
            if (self.epoch, at) in self.skipped:
                self.used(Group([], size))
            else:
                yield Group([add_noise(each, self.noise, self.tokens.vocabulary) for each in rows], size)
            at += size

    def used(self, group: Group) -> None:
        """Move the position: the group has become a step. A loader that reads ahead does not move it."""
        self.position += group.samples
        if self.position >= len(self.tokens):
            self.epoch, self.position = self.epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.epoch, self.position = saved["epoch"], saved["position"]


class Trainer(NumberChecks):
    """One launch of the run on this rank. `NumberChecks` judges steps and states, and rolls back."""

    def __init__(self, config: Config, world: World, parts: "Parts", preemption: Preemption) -> None:
        tokens, held_out = load_tokens(config)
        about = config.trajectory() | {"device": world.device.type, "tokens": tokens.digest()}
        world.require_same_run(about)
        super().__init__(config, world)
        self.parts, self.preemption = parts, preemption
        self.data = parts.data(tokens, config, world)
        self.evaluation = parts.evaluation(held_out, config, world)
        self.metrics = parts.metrics(config.metrics, world)
        self.checkpoints = parts.checkpoints(config, world, about)
        self.saved = 0  # the step of the last checkpoint that this launch saved or resumed from

    def build(self) -> State:
        """Build everything that the next step depends on. A checkpoint holds all of it, and the random streams."""
        config, world = self.config, self.world
        seed_everything(config.seed)  # the same seed on all ranks: each builds the same weights
        bare = build(config, self.data.tokens.vocabulary).to(world.device)
        seed_everything(config.seed + world.rank)  # then one seed for each rank: dropout masks must differ
        average = build_average(bare, config)  # a copy of the model, so before it is sharded
        self.model = distribute(bare, average.module, config, world)  # DDP, or FSDP2 shards
        optimizer = build_optimizer(self.model, config)  # after sharding: it holds the shards
        return self.parts.state(
            model=self.model,
            optimizer=optimizer,
            average=average,
            scheduler=build_scheduler(optimizer, config, self.data.steps),
            scaler=build_scaler(config, world),
            data=self.data,
            progress=Progress(),
            stopping=Stopping(),
            device=world.device,
        )

    # The loop.

    def train(self) -> None:
        """Take all the steps that are left."""
        progress, config = self.state.progress, self.config
        self.model.train()
        self.evaluate()  # the launch before may have left between a step and its evaluation
        while not self.finished():
            for group in self.data.groups():
                epoch, rate = self.data.epoch, float(self.state.scheduler.get_last_lr()[0])
                loss = self.step(group)
                self.metrics.log(progress.step, loss, rate)
                if progress.step % config.log_every == 0:
                    self.log(epoch, loss, rate)
                self.evaluate()
                if self.must_roll_back():
                    self.roll_back()
                    break  # the rest of this epoch begins at another position now
                urgent = self.preemption.urgent()
                if urgent or progress.step % config.save_every == 0:
                    self.save()
                else:
                    self.check_between_saves()
                self.checkpoints.poll()
                if urgent:
                    self.checkpoints.settle()  # it is needed now, not when the next step is due
                if self.preemption.asked():
                    self.leave()
                if progress.step == config.stop_after:
                    raise Stopped(f"stopped after step {progress.step}, as told")
                if self.finished():
                    break

    def finished(self) -> bool:
        """All epochs are done, or early stopping has run out of patience."""
        return self.data.epoch >= self.config.epochs or self.state.stopping.exhausted(self.config.patience)

    def log(self, epoch: int, loss: float, rate: float) -> None:
        done = self.state.progress
        exact = f" hex {loss.hex()}" if self.config.log_hex else ""
        self.world.say(f"step {done.step} epoch {epoch} loss {loss:.4f}{exact} lr {rate:.3e} tokens {done.tokens}")

    def evaluate(self) -> None:
        """Measure the loss on the held-out samples, if an evaluation is due after this step."""
        every, step, stopping = self.config.evaluate_every, self.state.progress.step, self.state.stopping
        due = every and step % every == 0 and step != stopping.step
        if due and not self.evaluation.update(stopping, step, self.unwrapped, self.preemption.asked):
            self.leave()  # the next launch begins with this evaluation

    # One optimizer step.

    def step(self, group: Group) -> float:
        """Forward, backward, clip, step, schedule. Returns the mean loss per token over all ranks."""
        state, config = self.state, self.config
        time.sleep(config.step_delay)
        share = torch.zeros((), device=self.world.device)  # this rank's part of the loss
        for i, rows in enumerate(group.batches):
            # With --global-batch the ranks decide how many micro-batches there are, so the model counts steps.
            self.unwrapped.counts = i == 0 or not config.global_batch  # type: ignore[assignment]
            with self.exchange(last=i == len(group.batches) - 1):
                share += self.micro_step(rows, group)
        state.scaler.unscale_(state.optimizer)
        agree_on_overflow(state.scaler, state.optimizer, self.world)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), config.clip)
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        loss = self.world.total(share)
        self.evidence = {"step": state.progress.step + 1, "batch": group.batches, "loss": loss, "norm": norm}
        if self.guard(loss, norm):  # a bad number, on which all ranks agree: leave the update out
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

    def micro_step(self, rows: torch.Tensor, group: Group) -> torch.Tensor:
        """Forward and backward. Returns the summed loss, divided by the number of tokens of the whole group."""
        with autocast(self.config, self.world):
            total = self.model(rows.to(self.world.device))
        share = total / (group.samples * self.config.context)
        # DDP and FSDP average the gradients over the ranks. We want their sum.
        self.state.scaler.scale(share * self.world.size).backward()
        return share.detach()

    def exchange(self, last: bool) -> Any:
        """Reduce gradients over the ranks with the last micro-batch only. Until then they add up on each rank."""
        if self.config.parallel == "fsdp":
            self.model.set_requires_gradient_sync(last)  # type: ignore[operator]
            return nullcontext()
        return nullcontext() if last else self.model.no_sync()  # type: ignore[operator]

    def update(self, loss: float) -> None:
        """Apply the gradients, and move the average of the weights."""
        self.state.scaler.step(self.state.optimizer)
        self.state.average.update_parameters(self.unwrapped)
        if self.config.spike:
            self.state.memory.note(loss)

    @property
    def unwrapped(self) -> nn.Module:
        """The model without DDP around it."""
        return self.model if self.config.parallel == "fsdp" else self.model.module  # type: ignore[return-value]

    # Saving and resuming.

    def save(self) -> None:
        """Save the state after this step, unless a check finds that it must not be resumed from.

        Every rank writes its part of the tensors and its random streams. Rank 0 writes what is equal on all ranks and
        a manifest with a checksum of every file. When all of that is on the disk, one rename publishes it.
        """
        step = self.state.progress.step
        if self.bad and self.config.rollback_after:
            return self.world.say(f"step {step} is not saved: it may have to be rolled back")
        self.compare_replicas()
        self.check_finite()
        self.metrics.keep()  # first: a launch that resumes from this checkpoint does not write these lines again
        if self.checkpoints.save(step, self.state) is not False:
            self.saved = step

    def resume(self, newest: Path | None) -> None:
        """Put the state back from the newest valid checkpoint. Without one, the run starts from scratch."""
        if newest is None:
            self.world.say(f"no checkpoint in {self.config.checkpoints}: starting from scratch")
        else:
            self.checkpoints.read(self.state, newest)
            self.saved = self.state.progress.step
            self.world.say(f"resumed from {newest} (epoch {self.data.epoch}, sample {self.data.position})")
        self.apply_rollbacks()
        self.metrics.rewind_together(self.state.progress.step)  # cut off what was written past this step

    def leave(self) -> NoReturn:
        """Save and end this launch: someone wants the machine back."""
        if self.saved != self.state.progress.step:
            self.save()
        without = "" if self.saved == self.state.progress.step else ", which could not be saved"
        raise Preempted(f"told to leave after step {self.state.progress.step}{without}")

    # One launch.

    def run(self) -> None:
        """Resume, train to the end, and export the model."""
        exported = self.config.out / "model.safetensors"
        newest = self.checkpoints.newest_valid()
        steps = self.data.steps - len(self.read_rollbacks())
        done = newest is not None and step_of(newest) == steps and exported.exists()
        if self.world.agree(done):  # rank 0 decides: another node may see the file a little later
            return self.world.say(f"finished before, at step {steps}: nothing to do")
        self.state = self.build()
        try:
            self.resume(newest)
            self.train()
            if self.saved != self.state.progress.step or not self.checkpoints.settle():
                self.save()
            self.finish_writing()
            export(self.model, exported, self.world)
        except StorageFailed as problem:
            raise Refused(f"the storage fails: {problem}; start again when it does not") from None
        except LaunchEnd as end:
            self.keep_evidence(end)
            self.finish_writing()
            raise
        except BaseException:
            if self.checkpoints.busy:  # its thread may wait for a peer that is gone, and block the exit
                exit_at_once()
            raise
        self.world.say(f"finished at step {self.state.progress.step}: {exported}")

    def finish_writing(self) -> None:
        """Wait until checkpoints, metrics and copies that are on their way are on the disk."""
        self.checkpoints.settle()
        self.metrics.keep()
        self.checkpoints.wait_for_replica()


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The classes that a run is made of. Each trainer of the gallery replaces one or two of them."""

    trainer: type[Trainer] = Trainer
    world: type[World] = World
    state: type[State] = State
    checkpoints: type[Checkpoints] = Checkpoints
    data: type[Data] = Data
    evaluation: type[Evaluation] = Evaluation
    metrics: type[Metrics] = Metrics
    preemption: type[Preemption] = Preemption


def main(argv: Sequence[str] | None = None, **replaced: Any) -> int:
    """Run one launch on this rank, with other `Parts` where given. Returns the exit code."""
    config, parts = parse(argv), Parts(**replaced)
    make_deterministic()
    world = parts.world.join(config.device, config.timeout, config.storage_timeout)
    watch = watch_for(config) if config.notice != "none" else None
    with parts.preemption(world, watch) as preemption:
        return world.run(lambda: parts.trainer(config, world, parts, preemption).run())


if __name__ == "__main__":
    raise SystemExit(main())
