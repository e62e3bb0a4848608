"""Train a tiny language model, and survive: start it again with the same --out and it resumes.

    torchrun --nproc-per-node 2 -m tinymodels.train --out runs/first
    python -m tinymodels.train --out runs/alone --model mlp

Read it from top to bottom: `main`, then the Trainer that it builds, then one step. What a run
consists of is in state.py, how it outlives a crash in checkpoint.py.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tinymodels import model as models
from tinymodels import optimizer as optimizers
from tinymodels.checkpoint import Checkpoints, Refused, number
from tinymodels.config import Config, parse
from tinymodels.data import Data, Group, Tokens
from tinymodels.export import export
from tinymodels.state import Progress, State, seed_everything
from tinymodels.world import World


def main(
    argv: Sequence[str] | None = None,
    *,
    trainer: "type[Trainer] | None" = None,
    state: type[State] = State,
    checkpoints: type[Checkpoints] = Checkpoints,
    data: type[Data] = Data,
) -> int:
    """One launch on this rank. The parts can be exchanged, one by one, for parts of your own."""
    config = parse(argv)
    make_deterministic()
    world = World.join(config.device, config.timeout)
    try:
        (trainer or Trainer)(config, world, state, checkpoints, data).run()
    except Refused as problem:
        if world.leads:
            print(f"tinymodels.train: error: {problem}", file=sys.stderr, flush=True)
        return 1
    finally:
        # After an exception the peers may be gone, and a farewell to them could hang or hide the
        # exception; the group falls with the process then.
        if sys.exc_info()[0] is None:
            world.leave()
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
    ) -> None:
        self.config, self.world = config, world
        tokens = self.load_tokens()
        self.data = data(tokens, config, world)
        about = config.trajectory() | {"device": world.device.type, "tokens": tokens.digest()}
        self.checkpoints = checkpoints(config.checkpoints, world, config.keep, about)
        self.make_state = state
        self.saved = 0  # the step of the newest checkpoint of this run

    def run(self) -> None:
        exported = self.config.out / "model.safetensors"
        newest = self.checkpoints.newest_valid()
        if newest is not None and number(newest) == self.data.steps and exported.exists():
            self.world.say(f"finished before, at step {number(newest)}: nothing to do")
            return

        self.state = self.build()
        self.resume(newest)
        if not self.train():
            return  # --stop-after
        if self.saved != self.state.progress.step:
            self.save()  # the last steps deserve a checkpoint too
        export(self.model, exported, self.world)
        self.world.say(f"finished at step {self.state.progress.step}: {exported}")

    # Put together.

    def load_tokens(self) -> Tokens:
        config = self.config
        if config.text is None:
            return Tokens.language(config.samples, config.context, config.seed)
        try:
            return Tokens.text(config.text, config.context)
        except ValueError as problem:
            raise Refused(str(problem)) from None

    def build(self) -> State:
        """Everything new, as for a first step. The order matters in three places, each marked."""
        config, world = self.config, self.world
        seed_everything(config.seed)  # one seed for all: every rank builds the same weights ...
        bare = models.build(config, self.data.tokens.vocabulary).to(world.device)
        seed_everything(config.seed + world.rank)  # ... then each its own: dropout must differ
        average = optimizers.build_average(bare, config)  # before sharding: a copy of the model
        self.model = self.distribute(bare, average.module)
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
            device=world.device,
        )

    def distribute(self, bare: nn.Module, average: nn.Module) -> nn.Module:
        """Replicate the model (DDP) or shard it and its average alike (FSDP2)."""
        if self.config.parallel == "fsdp":
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            mesh = init_device_mesh(self.world.device.type, (self.world.size,))
            for whole in (bare, average):
                for block in whole.blocks:  # type: ignore[union-attr]
                    fully_shard(block, mesh=mesh)
                fully_shard(whole, mesh=mesh)
            return bare

        from torch.nn.parallel import DistributedDataParallel

        # After its first backward DDP regroups its buckets, in the order in which gradients came.
        # Among three ranks or more, a gradient's place in its bucket decides in which order it is
        # summed: a run that resumes at step 40 would sum that step in other groups than the run
        # that never stopped, and differ in the last bit. DDP leaves the buckets alone when it has
        # to look for unused parameters, so let it look. (Two ranks: a + b is b + a.)
        return DistributedDataParallel(bare, find_unused_parameters=self.world.size > 2)

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

    def train(self) -> bool:
        """All the steps that are left. False, if told to stop before the end."""
        progress, config = self.state.progress, self.config
        self.model.train()
        while self.data.epoch < config.epochs:
            for group in self.data.groups():
                epoch, rate = self.data.epoch, float(self.state.scheduler.get_last_lr()[0])
                loss = self.step(group)
                if progress.step % config.log_every == 0:
                    self.log(epoch, self.world.total(loss), rate)
                if progress.step % config.save_every == 0:
                    self.save()
                if progress.step == config.stop_after:
                    self.world.say(f"stopped after step {progress.step}, as told")
                    return False
        return True

    def step(self, group: Group) -> torch.Tensor:
        """One optimizer step; this rank's share of the mean loss."""
        state, config = self.state, self.config
        loss = torch.zeros((), device=self.world.device)
        for i, rows in enumerate(group.batches):
            last = i == len(group.batches) - 1
            with self.exchange(last):
                loss += self.micro_step(rows, group)
        state.scaler.unscale_(state.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), config.clip)
        state.scaler.step(state.optimizer)
        state.scaler.update()
        state.optimizer.zero_grad(set_to_none=True)
        state.scheduler.step()
        state.average.update_parameters(self.unwrapped)
        state.progress.step += 1
        state.progress.tokens += group.samples * config.context
        state.data.used(group)
        return loss

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

    def save(self) -> None:
        self.checkpoints.save(self.state.progress.step, self.state)
        self.saved = self.state.progress.step


if __name__ == "__main__":
    raise SystemExit(main())
