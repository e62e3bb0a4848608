"""What a run is: every choice in one frozen record, and the command line that fills it.

This file imports no torch, so that `--help` and a mistyped flag answer at once.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# Choices that may differ between the run that saved a checkpoint and the one that resumes from
# it. All others shape the trajectory: changed half-way, "exact resume" would mean nothing.
# (A text may move: what is compared is a digest of its tokens.)
FREE_TO_CHANGE = frozenset(
    (
        *("out", "text", "workers", "timeout"),
        *("save_every", "keep", "keep_epochs", "keep_best", "save_async", "format", "delta_every", "replica"),
        *("storage_timeout", "write_delay", "step_delay", "stop_after", "log_every", "log_hex"),
        # A run without bad numbers is the same under any guard, and one with them may need another.
        *("on_nonfinite", "rollback_after", "rollback_lr", "spike"),
        *("check_replicas", "check_finite", "allow_nonfinite_saves", "postmortem"),
    )
)


@dataclass(frozen=True, kw_only=True)
class Config:
    """Every choice of a run. The defaults make a run of some sixty steps on two ranks."""

    out: Path

    model: str = "gpt"
    layers: int = 2
    heads: int = 2
    width: int = 32
    context: int = 32
    dropout: float = 0.1

    text: Path | None = None
    samples: int = 617  # on two ranks: 39 micro-batches, the last one partial and uneven
    batch: int = 8
    accumulate: int = 2
    global_batch: int = 0  # 0: batch * accumulate * ranks, so another number of ranks is another run
    epochs: int = 3
    noise: float = 0.0
    workers: int = 0

    lr: float = 3e-3
    warmup: int = 10
    weight_decay: float = 0.1
    clip: float = 1.0
    ema_decay: float = 0.98
    amp: bool = False
    bf16: bool = False

    on_nonfinite: str = "stop"
    rollback_after: int = 0
    rollback_lr: float = 1.0
    spike: float = 0.0
    check_replicas: int = 0
    check_finite: int = 0
    allow_nonfinite_saves: bool = False
    postmortem: bool = False

    parallel: str = "ddp"
    device: str = "auto"
    timeout: float = 120.0
    seed: int = 1234

    evaluate_every: int = 0
    patience: int = 0

    save_every: int = 10
    keep: int = 3
    keep_epochs: bool = False
    keep_best: bool = False
    save_async: bool = False
    format: str = "dcp"
    delta_every: int = 1
    replica: Path | None = None
    storage_timeout: float = 1800.0
    write_delay: float = 0.0
    step_delay: float = 0.0
    stop_after: int | None = None
    log_every: int = 1
    log_hex: bool = False

    @property
    def checkpoints(self) -> Path:
        return self.out / "checkpoints"

    @property
    def metrics(self) -> Path:
        return self.out / "metrics.jsonl"

    @property
    def rollbacks(self) -> Path:
        return self.out / "rollbacks.json"

    @property
    def dumps(self) -> Path:
        return self.out / "postmortem"

    def trajectory(self) -> dict[str, Any]:
        """The choices that a resumed run must share with the run that it continues."""
        return {k: v for k, v in asdict(self).items() if k not in FREE_TO_CHANGE}


def parse(argv: Sequence[str] | None = None) -> Config:
    """Read the command line; whatever is wrong with it is told in one line (exit code 2)."""
    parser = argparse.ArgumentParser(
        prog="tinymodels.train",
        description="Train a tiny language model. Started again with the same --out, it resumes.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )

    def number(kind: type, low: float, high: float = float("inf")) -> Any:
        def convert(text: str) -> Any:
            value = kind(text)
            if not low <= value <= high:
                raise argparse.ArgumentTypeError(f"{text} is not between {low} and {high}")
            return value

        convert.__name__ = kind.__name__  # argparse names the type in "invalid int value"
        return convert

    count, natural = number(int, 1), number(int, 0)
    fraction, positive = number(float, 0.0, 1.0), number(float, 1e-12)

    def add(flag: str, kind: Any, text: str, **more: Any) -> None:
        default = getattr(Config, flag.removeprefix("--").replace("-", "_"))
        parser.add_argument(flag, type=kind, default=default, help=text, **more)

    def switch(flag: str, text: str) -> None:
        parser.add_argument(flag, action="store_true", help=text)

    parser.add_argument("--out", type=Path, required=True, help="where the run lives")
    add("--model", str, "which model", choices=("gpt", "mlp"))
    add("--layers", count, "how many blocks")
    add("--heads", count, "attention heads (gpt)")
    add("--width", count, "width of the residual stream")
    add("--context", count, "tokens a sample")
    add("--dropout", fraction, "dropout probability")
    add("--text", Path, "a text file to learn, byte by byte; without it, a synthetic language")
    add("--samples", count, "how many samples of the synthetic language")
    add("--batch", count, "samples a rank and micro-batch")
    add("--accumulate", count, "micro-batches an optimizer step, where there is no --global-batch")
    add("--global-batch", natural, "samples an optimizer step, however many ranks share them; 0: see --accumulate")
    add("--epochs", count, "passes over the data")
    add("--noise", fraction, "share of input tokens replaced at random (draws from random, numpy)")
    add("--workers", natural, "data loader processes a rank")
    add("--lr", positive, "peak learning rate")
    add("--warmup", natural, "steps of linear warm-up")
    add("--weight-decay", number(float, 0.0), "AdamW's weight decay, for matrices only")
    add("--clip", positive, "largest gradient norm")
    add("--ema-decay", fraction, "decay of the moving average of the weights")
    switch("--amp", "float16 autocast with a gradient scaler")
    switch("--bf16", "bfloat16 autocast, which needs no scaler")
    add(
        "--on-nonfinite",
        str,
        "at a loss or gradient that is not finite: end the launch, leave the update out, or do not look",
        choices=("stop", "skip", "off"),
    )
    add(
        "--rollback-after", natural, "roll back after so many bad steps in a row, and skip their samples; 0: never"
    )
    add("--rollback-lr", number(float, 1e-12, 1.0), "what the learning rate is multiplied by at each rollback")
    add("--spike", number(float, 0.0), "a loss so many times the running median is bad, too; 0: none is")
    add("--check-replicas", natural, "steps between comparisons of the replicas, as at each save; 0: never")
    add("--check-finite", natural, "steps between looks for what is not finite, as at each save; 0: never")
    switch("--allow-nonfinite-saves", "publish a checkpoint even if a value in it is not finite")
    switch("--postmortem", "keep what there was of a launch that ended for a bad number")
    add("--parallel", str, "how the ranks share the work", choices=("ddp", "fsdp"))
    add("--device", str, "where to compute", choices=("auto", "cpu", "cuda"))
    add("--timeout", positive, "seconds a collective may take before the rank gives up")
    add("--seed", natural, "seed of everything")
    add("--evaluate-every", natural, "optimizer steps between evaluations on held-out samples; 0: never")
    add("--patience", natural, "stop after so many evaluations without a better one; 0: never")
    add("--save-every", count, "optimizer steps between checkpoints")
    add("--keep", count, "how many checkpoints to keep")
    switch("--keep-epochs", "keep the last checkpoint of each epoch as well")
    switch("--keep-best", "keep the one with the best evaluation as well")
    switch("--save-async", "train on while a checkpoint is being written")
    add("--format", str, "how checkpoints hold the tensors", choices=("dcp", "pt", "safetensors"))
    add("--delta-every", number(int, 1, 100), "a full checkpoint in so many, and deltas between; 1: all are full")
    add(
        "--replica",
        Path,
        "a second store, to which every checkpoint is copied and from which a lost one is restored",
    )
    add("--storage-timeout", positive, "seconds that the storage may take to answer before the run gives up")
    add("--write-delay", number(float, 0.0), "seconds before a write begins: rehearse a slow disk")
    add("--step-delay", number(float, 0.0), "seconds that each step takes longer: rehearse a larger model")
    add("--stop-after", count, "leave after this step without saving: rehearse a crash")
    add("--log-every", count, "optimizer steps between log lines")
    switch("--log-hex", "print losses also as exact hexadecimal floats")

    config = Config(**vars(parser.parse_args(argv)))
    if config.model == "gpt" and config.width % config.heads:
        parser.error(f"--width {config.width} cannot be divided among --heads {config.heads}")
    if config.global_batch % config.batch:
        parser.error(f"--global-batch {config.global_batch} cannot be cut into micro-batches of {config.batch}")
    if config.patience and not config.evaluate_every:
        parser.error(f"--patience {config.patience} waits for evaluations: it needs --evaluate-every")
    if config.keep_best and not config.evaluate_every:
        parser.error("--keep-best looks at evaluations: it needs --evaluate-every")
    for flag, asked in (
        ("--parallel fsdp", config.parallel == "fsdp"),
        ("--save-async", config.save_async),
        ("--delta-every", config.delta_every > 1),
    ):
        if asked and config.format != "dcp":
            parser.error(f"--format {config.format} is one file that rank 0 writes: {flag} needs dcp")
    if config.amp and config.bf16:
        parser.error("--amp and --bf16 are two ways to compute: choose one")
    for flag, asked in (("--rollback-after", config.rollback_after), ("--spike", config.spike)):
        if asked and config.on_nonfinite == "off":
            parser.error(f"{flag} {asked} needs someone who looks: not --on-nonfinite off")
    if config.rollback_lr != 1 and not config.rollback_after:
        parser.error(f"--rollback-lr {config.rollback_lr} waits for rollbacks: it needs --rollback-after")
    if 0 < config.spike <= 1:
        parser.error(f"--spike {config.spike} would take any loss for a bad one: it must be more than 1")
    if config.check_replicas and config.parallel == "fsdp":
        parser.error("--check-replicas compares replicas: --parallel fsdp has none, each rank has a part")
    if config.replica is not None and config.replica.resolve() == config.checkpoints.resolve():
        parser.error(f"--replica {config.replica} is where the checkpoints are: it must be another place")
    if config.text is not None and not config.text.is_file():
        parser.error(f"--text {config.text} is not a file")
    existing = next((p for p in (config.out, *config.out.absolute().parents) if p.exists()), None)
    if existing is not None and not (existing.is_dir() and os.access(existing, os.W_OK)):
        parser.error(f"--out {config.out} cannot be written: {existing} is in the way")
    return config
