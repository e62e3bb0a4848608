"""Train a tiny language model, and survive: start it again with the same --out and it resumes.

    torchrun --nproc-per-node 2 -m tinymodels.train --out runs/first
    python -m tinymodels.train --out runs/alone --model mlp
    torchrun --nnodes 1:4 ... -m tinymodels.train --out /shared/elastic --global-batch 64

Read it from top to bottom: `main`, then the Trainer that it builds; then one step, in stepping.py. What
a run consists of is in state.py, how it outlives a crash in checkpoint.py, and a bad number in guard.py
and rollback.py. It leaves with exit code 0 when it is done, 143 when it was told to leave before (SIGTERM)
and has saved, 1 when something is wrong.
The last of these runs may lose nodes and win others: whoever is there takes a share of the same batch.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import torch

from tinymodels import inspection, postmortem
from tinymodels import model as models
from tinymodels import optimizer as optimizers
from tinymodels.checkpoint import Checkpoints
from tinymodels.config import Config, parse
from tinymodels.data import Data
from tinymodels.endings import Diverged, Ending, NotFinite, Preempted, Refused, Stopped, leave_at_once
from tinymodels.evaluation import Evaluation, Stopping, load_tokens
from tinymodels.export import export
from tinymodels.guard import Guard
from tinymodels.manifest import number
from tinymodels.metrics import Metrics
from tinymodels.parallel import distribute
from tinymodels.precision import build_scaler
from tinymodels.preemption import Preemption
from tinymodels.rollback import Journal, Rollback, places, rate_after
from tinymodels.state import Progress, State, seed_everything
from tinymodels.stepping import Stepping
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


class Trainer(Stepping):
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
        tokens, held_out = load_tokens(config)
        about = config.trajectory() | {"device": world.device.type, "tokens": tokens.digest()}
        world.compare(about)
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
        self.judge = Guard(config, world)
        self.journal = Journal(config.rollbacks, world)
        self.bad, self.evidence = [], {}
        self.make_state = state
        self.saved = 0  # the step after which this run saved last, or that it resumed from

    def run(self) -> None:
        exported = self.config.out / "model.safetensors"
        newest = self.checkpoints.newest_valid()
        self.journal.read()
        steps = self.data.steps - len(places(self.journal.rollbacks))
        done = newest is not None and number(newest) == steps and exported.exists()
        if self.world.agree(done):  # another node may see a file a little later
            self.world.say(f"finished before, at step {steps}: nothing to do")
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
        except Ending as end:
            if isinstance(end, NotFinite) and self.config.postmortem:
                why = self.evidence | {"why": str(end)}
                postmortem.dump(self.config.dumps, self.world, self.state, why)
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
            scaler=build_scaler(config, world),
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
        else:
            self.checkpoints.read(self.state, newest)
            self.saved = self.state.progress.step
            at = f"epoch {self.data.epoch}, sample {self.data.position}"
            self.world.say(f"resumed from {newest} ({at})")
        self.remember()

    def remember(self) -> None:
        """Rollbacks last, also over a resume from a checkpoint that knows nothing of them."""
        memory = self.state.memory
        memory.rollbacks = max(memory.rollbacks, self.journal.rollbacks, key=len)
        if memory.rollbacks:
            self.data.skipped = places(memory.rollbacks)
            optimizers.set_peak(self.state.scheduler, self.config.lr * rate_after(memory.rollbacks))

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
                if self.gone_wrong():
                    self.roll_back()
                    break
                if progress.step % config.save_every == 0:
                    self.save()
                else:
                    self.inspect()
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

    def gone_wrong(self) -> bool:
        """Too many bad steps in a row? None at all is allowed at the end: nobody would ever look again."""
        allowed = 0 if self.finished() else self.config.rollback_after - 1
        return self.config.rollback_after > 0 and len(self.bad) > allowed

    def roll_back(self) -> None:
        """Back to the last valid checkpoint in this process, and past what was bad."""
        step, known = self.state.progress.step, self.state.memory.rollbacks
        self.checkpoints.settle()
        together(self.world, self.checkpoints.leave)  # its replica is about to be looked at
        newest = self.checkpoints.newest_valid()
        to = 0 if newest is None else number(newest)
        if known and known[-1].to == to:
            raise Refused(f"step {step} is bad, and it was rolled back to step {to} before: that did not help")
        self.journal.write([*known, Rollback(to, tuple(self.bad), self.config.rollback_lr)])
        if newest is None:
            raise NotFinite(f"step {step} is bad, and there is no checkpoint to roll back to")
        self.world.say(f"rolling back from step {step} to {to}; bad and skipped from now on: {len(self.bad)}")
        self.bad.clear()
        self.keep_metrics()
        self.resume(newest)
        together(self.world, lambda: self.metrics.rewind(to))
        self.evaluate()  # as at the beginning of a launch

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
        if self.bad and self.config.rollback_after:
            return self.world.say(f"step {self.state.progress.step} is not saved: it may have to be rolled back")
        self.compare_replicas()
        self.check_finite()
        self.keep_metrics()  # first: a launch that resumes from the checkpoint would not write them again
        if self.checkpoints.save(self.state.progress.step, self.state) is not False:
            self.saved = self.state.progress.step

    def inspect(self) -> None:
        """Between two saves, if it is time: what a save would look at (--check-replicas, --check-finite)."""
        step, config = self.state.progress.step, self.config
        if config.check_replicas and step % config.check_replicas == 0:
            self.compare_replicas()
        due = config.check_finite and step % config.check_finite == 0
        if due and (found := inspection.not_finite(self.state, self.world)):
            raise NotFinite(f"after step {step} the state is not finite: {found}")

    def compare_replicas(self) -> None:
        """Who has gone astray says nothing and learns on: nothing but a comparison will tell."""
        if self.config.check_replicas and (found := inspection.differing(self.state, self.world)):
            raise Diverged(f"after step {self.state.progress.step} the replicas are not equal: {found}")

    def check_finite(self) -> None:
        """What is published will be resumed from: better nothing than a checkpoint with a bad value."""
        if not self.config.allow_nonfinite_saves and (found := inspection.not_finite(self.state, self.world)):
            raise NotFinite(f"step {self.state.progress.step} is not published, as it is not finite: {found}")

    def keep_metrics(self) -> None:
        """All ranks: have on the disk what there is of metrics. Trouble there is not worth a run."""
        try:
            together(self.world, self.metrics.sync)
        except Unwritten as problem:
            self.world.say(f"metrics are held back: {problem}")


if __name__ == "__main__":
    raise SystemExit(main())
