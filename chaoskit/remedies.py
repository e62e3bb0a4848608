"""What a trainer is to change, code by code: the shortest way out that holds for any framework."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

_LOADER = (
    "save the position in the epoch and go on from it, by a stateful loader (torchdata's StatefulDataLoader) or by the "
    "sampler's set_epoch and skipping the micro-batches that were trained on (not those that were fetched ahead)"
)
_CHECKSUM = (
    "keep a checksum of every file of a checkpoint, compare before loading, fall back to the newest that holds"
)

#: For each code of diagnosis, what to change. A plain sentence, without its full stop.
REMEDIES: Mapping[str, str] = {
    "model-not-restored": "save model.state_dict() and load it with strict=True, before anything copies the parameters",
    "buffers-not-restored": (
        "save and load the whole state_dict(), as parameters() alone leaves the buffers out; where one rank's are "
        "saved for all, let it be the one whose buffers the wrapper hands on, or make them equal before"
    ),
    "optimizer-not-restored": (
        "save optimizer.state_dict() and load it after the optimizer was made of the restored model's parameters"
    ),
    "options-not-restored": "save what moves the options of parameter groups, beside the optimizer",
    "lr-schedule-off": (
        "save scheduler.state_dict(), make the scheduler before loading, load it after the optimizer, and step it once "
        "for each optimizer step, whatever the number of ranks"
    ),
    "scaler-not-restored": "save scaler.state_dict() and load it",
    "ema-not-restored": "save the averaged model's state_dict(), its count of updates with it, and load it",
    "rng-not-restored": (
        "each rank saves the streams that it draws from (torch.get_rng_state, random.getstate, "
        "numpy.random.get_state; on GPUs torch.cuda.get_rng_state) and puts them back last, after the data loader was "
        "brought to its place; what the data set or a loader's worker draws is best drawn from a generator seeded by "
        "epoch and index"
    ),
    "extra-state-not-restored": "put the counter or table that is named back from the checkpoint, too",
    "data-replayed": _LOADER,
    "data-skipped": _LOADER,
    "data-reordered": (
        "let the order hang on seed and epoch alone (a sampler with set_epoch, called on the resume as well, or a "
        "generator of its own that is saved), not on a stream that others draw from; where the samples themselves are "
        "others, draw what augments them from a generator seeded by epoch and index"
    ),
    "global-batch-changed": "with another number of ranks, change the micro-batch or the accumulation with it",
    "restarted-from-scratch": (
        "look for the newest checkpoint at each start, and end with an error where one should be and none can be read "
        "(--resume-args adds what the script is told on a relaunch)"
    ),
    "stale-checkpoint": (
        "choose the newest whole checkpoint by its step as a number, and move the pointer as soon as it is written"
    ),
    "corrupt-accepted": _CHECKSUM,
    "torn-checkpoint": (
        "write under another name, fsync, then rename, with a marker last; and take the newest checkpoint that has it"
    ),
    "checkpoint-lost": "write the new checkpoint beside the old one, and remove the old one once the new one is whole",
    "checkpoint-not-durable": "fsync each file and its directory before the checkpoint is renamed or pointed to",
    "poisoned-checkpoint": "look at loss and gradients before saving, and save nothing that is not finite",
    "debris-left": "remove what an interrupted save left, at the start or before the next save",
    "disk-use-grows": "count interrupted checkpoints when the oldest are removed",
    "hang": (
        "give the process group a timeout, and have every rank ask the same question before it takes part in a "
        "collective"
    ),
    "crash-loop": "read the last launch's log: what its ranks died of keeps the job from coming back",
    "exited-early": (
        "end with an exit code other than 0 while steps are due, so that whoever relaunches the job does so; and count "
        "steps from the checkpoint's, not from 0"
    ),
    "orphans": "end children with the rank that started them (a process group, prctl's PR_SET_PDEATHSIG)",
    "needless-restart": "try the operation again, with a limit, before giving up",
    "slow-recovery": "save more often, shorten the process group's timeout, or make the start cheaper",
    "loss-diverged": (
        "all that was compared is right before it: look for what a step reads besides (a cache, a global, the clock), "
        "and for operations that are not deterministic"
    ),
    "ranks-diverged": "have one rank load and send, or all load the same file, and compare digests once",
    "nonfinite-accepted": "stop, or leave the update out, where a loss or a gradient norm is not finite",
    "corruption-accepted": "watch the gradient norm and the replicas' digests, and roll back where they jump",
    "corruption-saved": "check before saving what is checked before stepping",
    "corruption-spread": "check before the collective, not after it",
    "log-wrong": "cut the log back to the step that is resumed from, or write the step with each line",
    "fault-not-observed": "see the sentence: choose a step or a save that the job comes to, a file that it reads",
    "not-deterministic": (
        "seed python, numpy and torch before the model is built and before the data is shuffled, and set "
        "torch.use_deterministic_algorithms(True); or give more controls (--controls)"
    ),
    "probe-blind": (
        "let the loop tell what cannot be seen: chaoskit.probe.step(loss=, batch=, model=, optimizer=) before each "
        "optimizer step; save below {out} with torch.save, torch.distributed.checkpoint or safetensors"
    ),
    "reference-failed": "run the command by hand: it must come to its end with exit code 0 when nothing is broken",
}


def remedies(codes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """What to change for these codes, each remedy once, with the first code that asks for it."""
    seen: set[str] = set()
    for code in codes:
        remedy = REMEDIES.get(code)  # a stored run may have codes of a later chaoskit
        if remedy is not None and remedy not in seen:
            seen.add(remedy)
            yield code, remedy
