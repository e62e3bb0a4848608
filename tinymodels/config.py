"""The options of a run, in one frozen dataclass, and the command line that fills it.

This file does not import torch, so `--help` and a mistyped option answer at once.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# Options that may change between launches. All others shape the trajectory: if one of them changed half-way, "exact
# resume" would have no meaning. (A text may move: a digest of its tokens is compared.)
FREE_TO_CHANGE = frozenset(
    (
        *("out", "text", "workers", "timeout"),
        *("save_every", "keep", "keep_epochs", "keep_best", "save_async", "format", "delta_every", "replica"),
        *("notice", "storage_timeout", "write_delay", "step_delay", "stop_after", "log_every", "log_hex"),
        # A run without bad numbers is the same under any guard, and a run with bad numbers may need another guard.
        *("on_nonfinite", "rollback_after", "rollback_lr", "spike"),
        *("check_replicas", "check_finite", "allow_nonfinite_saves", "postmortem"),
    )
)


@dataclass(frozen=True, kw_only=True)
class Config:
    """Every option of a run. With the defaults, two ranks take about sixty steps."""

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
    global_batch: int = 0  # 0: batch * accumulate * ranks, so the number of ranks must not change
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
    notice: str = "none"
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
        """Return the options that a resumed run must share with the run that it continues."""
        return {k: v for k, v in asdict(self).items() if k not in FREE_TO_CHANGE}


def parse(argv: Sequence[str] | None = None) -> Config:
    """Read the command line. A mistake in it is reported in one line, with exit code 2."""
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

    parser.add_argument(
        "--out", type=Path, required=True, help="folder of the run: checkpoints, metrics, exported model"
    )
    add("--model", str, "which model to train", choices=("gpt", "mlp"))
    add("--layers", count, "number of blocks")
    add("--heads", count, "number of attention heads (gpt)")
    add("--width", count, "width of the residual stream")
    add("--context", count, "tokens per sample")
    add("--dropout", fraction, "dropout probability")
    add("--text", Path, "text file to train on, byte by byte; without it, a synthetic language is generated")
    add("--samples", count, "number of samples of the synthetic language")
    add("--batch", count, "samples per rank and micro-batch")
    add("--accumulate", count, "micro-batches per optimizer step; ignored with --global-batch")
    add(
        "--global-batch",
        natural,
        "samples per optimizer step, whatever the number of ranks, which may then change; 0: use --accumulate",
    )
    add("--epochs", count, "passes over the data")
    add("--noise", fraction, "mean share of input tokens to replace at random (draws from random and numpy)")
    add("--workers", natural, "data loader processes per rank")
    add("--lr", positive, "peak learning rate")
    add("--warmup", natural, "steps of linear warm-up")
    add("--weight-decay", number(float, 0.0), "weight decay of AdamW, for matrices only")
    add("--clip", positive, "maximum gradient norm")
    add("--ema-decay", fraction, "decay of the moving average of the weights")
    switch("--amp", "use float16 autocast with a gradient scaler")
    switch("--bf16", "use bfloat16 autocast, without a scaler")
    add(
        "--on-nonfinite",
        str,
        "what to do if a loss or gradient is not finite: end the launch, skip the update, or do not check",
        choices=("stop", "skip", "off"),
    )
    add(
        "--rollback-after",
        natural,
        "after this many bad steps in a row, return to the last checkpoint and skip their samples; 0: never",
    )
    add("--rollback-lr", number(float, 1e-12, 1.0), "multiply the learning rate by this at each rollback")
    add("--spike", number(float, 0.0), "a loss above this multiple of the running median is bad; 0: no check")
    add("--check-replicas", natural, "compare the replicas every so many steps and before each save; 0: never")
    add(
        "--check-finite",
        natural,
        "check the whole state for bad values every so many steps; 0: only before a save",
    )
    switch("--allow-nonfinite-saves", "save even if a value of the state is not finite")
    switch("--postmortem", "when a bad number ends the launch, keep the state of each rank in OUT/postmortem")
    add("--parallel", str, "replicate the model (ddp) or shard it (fsdp)", choices=("ddp", "fsdp"))
    add(
        "--device",
        str,
        "where to compute; with cuda, ranks share the devices if there are fewer",
        choices=("auto", "cpu", "cuda"),
    )
    add("--timeout", positive, "seconds that a collective may take before the rank gives up")
    add("--seed", natural, "seed of weights, data order and dropout")
    add("--evaluate-every", natural, "optimizer steps between evaluations on held-out samples; 0: never")
    add("--patience", natural, "stop early after this many evaluations without a better loss; 0: never")
    add("--save-every", count, "optimizer steps between checkpoints")
    add("--keep", count, "number of checkpoints to keep")
    switch("--keep-epochs", "also keep the last checkpoint of each epoch")
    switch("--keep-best", "also keep the checkpoint with the best evaluation")
    switch("--save-async", "continue training while a checkpoint is being written")
    add("--format", str, "file format of the tensors in a checkpoint", choices=("dcp", "pt", "safetensors"))
    add(
        "--delta-every",
        number(int, 1, 100),
        "make one checkpoint in so many a full one, the others deltas; 1: all full",
    )
    add("--replica", Path, "second store: each checkpoint is copied to it, and a lost one is restored from it")
    add(
        "--notice",
        str,
        "save after every step while this says that the node will be taken away: a cloud, SIGUSR1, or a file "
        "emergency_checkpoint in OUT",
        choices=("none", "aws", "gcp", "azure", "usr1", "file"),
    )
    add("--storage-timeout", positive, "seconds that the storage may take to answer before the run gives up")
    add("--write-delay", number(float, 0.0), "wait so many seconds before each write, to imitate a slow disk")
    add("--step-delay", number(float, 0.0), "wait so many seconds in each step, to imitate a larger model")
    add("--stop-after", count, "end the launch after this step without saving, to imitate a crash")
    add("--log-every", count, "optimizer steps between log lines")
    switch("--log-hex", "also print losses as exact hexadecimal floats")

    config = Config(**vars(parser.parse_args(argv)))
    if config.model == "gpt" and config.width % config.heads:
        parser.error(f"--width {config.width} cannot be divided among --heads {config.heads}")
    if config.global_batch % config.batch:
        parser.error(f"--global-batch {config.global_batch} cannot be cut into micro-batches of {config.batch}")
    if config.patience and not config.evaluate_every:
        parser.error(f"--patience {config.patience} counts evaluations: it needs --evaluate-every")
    if config.keep_best and not config.evaluate_every:
        parser.error("--keep-best compares evaluations: it needs --evaluate-every")
    for flag, asked in (
        ("--parallel fsdp", config.parallel == "fsdp"),
        ("--save-async", config.save_async),
        ("--delta-every", config.delta_every > 1),
    ):
        if asked and config.format != "dcp":
            parser.error(f"--format {config.format} is one file that rank 0 writes: {flag} needs --format dcp")
    if config.amp and config.bf16:
        parser.error("--amp and --bf16 exclude each other: choose one")
    for flag, asked in (("--rollback-after", config.rollback_after), ("--spike", config.spike)):
        if asked and config.on_nonfinite == "off":
            parser.error(f"{flag} {asked} needs the check of each step: it excludes --on-nonfinite off")
    if config.rollback_lr != 1 and not config.rollback_after:
        parser.error(f"--rollback-lr {config.rollback_lr} applies to rollbacks: it needs --rollback-after")
    if 0 < config.spike <= 1:
        parser.error(f"--spike {config.spike} would call every loss bad: it must be more than 1")
    if config.check_replicas and config.parallel == "fsdp":
        parser.error("--check-replicas compares replicas: --parallel fsdp has none, since each rank holds a part")
    if config.replica is not None and config.replica.resolve() == config.checkpoints.resolve():
        parser.error(f"--replica {config.replica} is the folder of the checkpoints: it must be another one")
    if config.text is not None and not config.text.is_file():
        parser.error(f"--text {config.text} is not a file")
    existing = next((p for p in (config.out, *config.out.absolute().parents) if p.exists()), None)
    if existing is not None and not (existing.is_dir() and os.access(existing, os.W_OK)):
        parser.error(f"--out {config.out} cannot be written: {existing} is not a folder that you may write to")
    return config
