"""Train a tiny language model, and survive: start it again with the same --out and it resumes.

    torchrun --nproc-per-node 2 -m tinymodels.train --out runs/first
    python -m tinymodels.train --out runs/alone --model mlp
    torchrun --nnodes 1:4 ... -m tinymodels.train --out /shared/elastic --global-batch 64

Read it from top to bottom: `main`, then the Trainer that it builds, then one step. What a run
consists of is in state.py, how it outlives a crash in checkpoint.py. It leaves with exit code 0 when
it is done, 143 when it was told to leave before (SIGTERM) and has saved, 1 when something is wrong.
The last of these runs may lose nodes and win others: whoever is there takes a share of the same batch.
"""

import math
import os
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from tinymodels import model as models
from tinymodels import optimizer as optimizers
from tinymodels.checkpoint import Checkpoints
from tinymodels.config import Config, parse
from tinymodels.data import Data, Group, Tokens
from tinymodels.endings import Ending, NotFinite, Preempted, Refused, Stopped, leave_at_once
from tinymodels.evaluation import Evaluation, Stopping, hold_out
from tinymodels.export import export
from tinymodels.manifest import number
from tinymodels.metrics import Metrics
from tinymodels.parallel import distribute
from tinymodels.preemption import Preemption
from tinymodels.state import Progress, State, seed_everything
from tinymodels.together import Unwritten, together
from tinymodels.world import World


def main(
    argv: Sequence[str] | None = None,
    *,
    trainer: "type[Trainer] | None" = None,
    world: type[World] = World,
    state: type[State] = State,
    checkpoints: type[Checkpoints] = Checkpoints,
    data: type[Data] = Data,
    evaluation: type[Evaluation] = Evaluation,
    metrics: type[Metrics] = Metrics,
    preemption: type[Preemption] = Preemption,
) -> int:
    """One launch on this rank. The parts can be exchanged, one by one, for parts of your own."""
    config = parse(argv)
    make_deterministic()
    here = replace(world.join(config.device, config.timeout), patience=config.storage_timeout)
    with preemption(here) as listening:
        try:
            (trainer or Trainer)(config, here, state, checkpoints, data, evaluation, metrics, listening).run()
        except Ending as end:
            if here.leads:
                end.tell()
            return end.code
        finally:
            # After an exception the peers may be gone, and a farewell to them could hang or hide
            # the exception; the group falls with the process then.
            if sys.exc_info()[0] is None:
                here.leave()
    return 0


def make_deterministic() -> None:
    """The same run twice gives the same bits. Without that, "resumed exactly" means nothing."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA starts
    torch.set_num_threads(1)  # sums over threads depend on how many there are
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False


class Trainer:
    """One run: put together, resumed where it was, trained to its end."""

    def __init__(
        self,
        config: Config,
        world: World,
        state: type[State],
        checkpoints: type[Checkpoints],
        data: type[Data],
        evaluation: type[Evaluation],
        metrics: type[Metrics],
        preemption: Preemption,
    ) -> None:
        self.config, self.world, self.preemption = config, world, preemption
        tokens, held_out = self.load_tokens()
        about = config.trajectory() | {"device": world.device.type, "tokens": tokens.digest()}
        self.compare(about)
        self.data = data(tokens, config, world)
        self.evaluation = evaluation(held_out, config, world)
        self.metrics = metrics(config.metrics, world)
        self.checkpoints = checkpoints(
            config.checkpoints,
            world,
            config.keep,
            about,
            keep_epochs=config.keep_epochs,
            keep_best=config.keep_best,
            elastic=config.global_batch > 0,
            form=config.format,
            delta_every=config.delta_every,
            save_async=config.save_async,
            write_delay=config.write_delay,
            replica=config.replica,
        )
        self.make_state = state
        self.saved = 0  # the step after which this run saved last, or that it resumed from

    def run(self) -> None:
        exported = self.config.out / "model.safetensors"
        newest = self.checkpoints.newest_valid()
        done = newest is not None and number(newest) == self.data.steps and exported.exists()
        if self.world.agree(done):  # another node may see a file a little later
            self.world.say(f"finished before, at step {self.data.steps}: nothing to do")
            return

        self.state = self.build()
        self.resume(newest)
        try:
            together(self.world, lambda: self.metrics.rewind(self.state.progress.step))
            self.train()
            if self.saved != self.state.progress.step or not self.checkpoints.settle():
                self.save()  # the last steps deserve a checkpoint too
            self.put_away()
            export(self.model, exported, self.world)
        except Unwritten as problem:
            raise Refused(f"the storage fails: {problem}; start again when it does not") from None
        except Ending:
            self.put_away()
            raise
        except BaseException:
            if self.checkpoints.busy:  # its thread may wait for a peer that is gone, and we for the thread
                leave_at_once()
            raise
        self.world.say(f"finished at step {self.state.progress.step}: {exported}")

    def put_away(self) -> None:
        """All ranks, before they leave: time enough for what is on its way to the disk."""
        self.checkpoints.settle()
        self.keep_metrics()
        self.checkpoints.leave()

    # Put together.

    def load_tokens(self) -> tuple[Tokens, Tokens]:
        """What to train on, and what to evaluate on."""
        config = self.config
        try:
            if config.text is None:
                tokens = Tokens.language(config.samples, config.context, config.seed)
            else:
                tokens = Tokens.text(config.text, config.context)
            return hold_out(tokens, config)
        except ValueError as problem:
            raise Refused(str(problem)) from None

    def compare(self, about: dict[str, Any]) -> None:
        """Each node was started by a command of its own; they must have asked for the same run."""
        first, *others = self.world.gather(about)
        for rank, other in enumerate(others, start=1):
            for name, value in other.items():
                if value != first[name]:
                    raise Refused(
                        f"the ranks were started apart: {name} is {first[name]} on rank 0, {value} on {rank}"
                    )

    def build(self) -> State:
        """Everything new, as for a first step. The order matters in three places, each marked."""
        config, world = self.config, self.world
        seed_everything(config.seed)  # one seed for all: every rank builds the same weights ...
        bare = models.build(config, self.data.tokens.vocabulary).to(world.device)
        seed_everything(config.seed + world.rank)  # ... then each its own: dropout must differ
        average = optimizers.build_average(bare, config)  # before sharding: a copy of the model
        self.model = distribute(bare, average.module, config, world)
        optimizer = optimizers.build_optimizer(self.model, config)  # after: it wants the shards
        return self.make_state(
            model=self.model,
            optimizer=optimizer,
            average=average,
            scheduler=optimizers.build_scheduler(optimizer, config, self.data.steps),
            # Small numbers, so that the scale moves within a run of sixty steps.
            scaler=torch.amp.GradScaler(
                world.device.type, init_scale=2.0**10, growth_interval=16, enabled=config.amp
            ),
            data=self.data,
            progress=Progress(),
            stopping=Stopping(),
            device=world.device,
        )

    # Resume.

    def resume(self, newest: Path | None) -> None:
        """Continue from a checkpoint, if there is one, and say which it is in any case."""
        if newest is None:
            self.world.say(f"no checkpoint in {self.config.checkpoints}: starting from scratch")
            return
        self.checkpoints.read(self.state, newest)
        self.saved = self.state.progress.step
        at = f"epoch {self.data.epoch}, sample {self.data.position}"
        self.world.say(f"resumed from {newest} ({at})")

    # Train.

    def train(self) -> None:
        """All the steps that are left."""
        progress, config = self.state.progress, self.config
        self.model.train()
        self.evaluate()  # if the launch before was told to leave after a step, before its evaluation
        while not self.finished():
            for group in self.data.groups():
                epoch, rate = self.data.epoch, float(self.state.scheduler.get_last_lr()[0])
                loss = self.step(group)
                self.metrics.log(progress.step, loss, rate)
                if progress.step % config.log_every == 0:
                    self.log(epoch, loss, rate)
                self.evaluate()
                if progress.step % config.save_every == 0:
                    self.save()
                self.checkpoints.poll()
                if self.preemption.asked():
                    self.leave()
                if progress.step == config.stop_after:
                    raise Stopped(f"stopped after step {progress.step}, as told")
                if self.finished():
                    break

    def finished(self) -> bool:
        """Through all epochs, or not getting any better?"""
        return self.data.epoch >= self.config.epochs or self.state.stopping.exhausted(self.config.patience)

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
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), config.clip)
        loss = self.world.total(share)
        self.guard(loss, norm)
        state.scaler.step(state.optimizer)
        state.scaler.update()
        state.optimizer.zero_grad(set_to_none=True)
        state.scheduler.step()
        state.average.update_parameters(self.unwrapped)
        state.progress.step += 1
        state.progress.tokens += group.samples * config.context
        state.data.used(group)
        return loss

    def guard(self, loss: float, norm: torch.Tensor) -> None:
        """Nothing that is not finite may get into the weights: from there it never goes away.

        Both numbers are the same on all ranks, so all of them raise or none. With --amp a gradient
        that overflows is a matter of course: the scaler skips the step.
        """
        step = self.state.progress.step + 1
        if not math.isfinite(loss):
            raise NotFinite(f"the loss of step {step} is {loss}")
        if not self.config.amp:
            whole = norm.full_tensor() if isinstance(norm, DTensor) else norm
            if not math.isfinite(whole):
                raise NotFinite(f"the gradient norm of step {step} is {float(whole)}")

    def micro_step(self, rows: torch.Tensor, group: Group) -> torch.Tensor:
        """Forward and backward. Sums over tokens, divided by the tokens of the whole group."""
        state, kind = self.state, self.world.device.type
        with torch.autocast(kind, torch.float16, enabled=self.config.amp):
            total = self.model(rows.to(self.world.device))
        share = total / (group.samples * self.config.context)
        # DDP and FSDP take the mean over the ranks where we want the sum.
        state.scaler.scale(share * self.world.size).backward()
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

    def log(self, epoch: int, loss: float, rate: float) -> None:
        done = self.state.progress
        exact = f" hex {loss.hex()}" if self.config.log_hex else ""
        self.world.say(f"step {done.step} epoch {epoch} loss {loss:.4f}{exact} lr {rate:.3e} tokens {done.tokens}")

    def evaluate(self) -> None:
        """If it is time: the loss on what is never trained on, and whether that still gets better."""
        every, step, stopping = self.config.evaluate_every, self.state.progress.step, self.state.stopping
        if not every or step % every or step == stopping.step:
            return
        loss = self.evaluation.loss(self.unwrapped, self.preemption.asked)
        if self.config.parallel == "fsdp":
            self.model.reshard()  # type: ignore[operator]  # after a forward without a backward
        if loss is None:
            self.leave()  # the launch that resumes begins with this evaluation
        stopping.note(step, loss)
        self.world.insist("early stopping", stopping)  # who stops alone leaves the others waiting
        self.world.say(f"evaluated step {step}: loss {loss:.4f}, best {stopping.best:.4f}")
        if stopping.exhausted(self.config.patience):
            self.world.say(f"stopping early: no better loss in {stopping.bad} evaluations")

    def leave(self) -> NoReturn:
        """Someone wants the machine back: save, and leave."""
        if self.saved != self.state.progress.step:
            self.save()
        without = "" if self.saved == self.state.progress.step else ", which could not be saved"
        raise Preempted(f"told to leave after step {self.state.progress.step}{without}")

    def save(self) -> None:
        self.keep_metrics()  # first: a launch that resumes from the checkpoint would not write them again
        if self.checkpoints.save(self.state.progress.step, self.state) is not False:
            self.saved = self.state.progress.step

    def keep_metrics(self) -> None:
        """All ranks: have on the disk what there is of metrics. Trouble there is not worth a run."""
        try:
            together(self.world, self.metrics.sync)
        except Unwritten as problem:
            self.world.say(f"metrics are held back: {problem}")


if __name__ == "__main__":
    raise SystemExit(main())
