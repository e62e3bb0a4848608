"""What a trainer is to change, code by code: the shortest way out that holds for any framework."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

_LOADER = (
    "save the position in the epoch and continue from it: use a stateful loader (torchdata's "
    "StatefulDataLoader), or call the sampler's set_epoch and skip the micro-batches that the job trained on "
    "(not those that it prefetched)"
)

#: For each code of diagnosis, what to change. A plain sentence, without its full stop.
REMEDIES: Mapping[str, str] = {
    "model-not-restored": (
        "save model.state_dict() and load it with strict=True, before anything copies the parameters"
    ),
    "buffers-not-restored": (
        "save and load the whole state_dict(), because parameters() leaves the buffers out; if one rank saves "
        "the buffers for all, choose the rank whose buffers the wrapper broadcasts, or make them equal first"
    ),
    "optimizer-not-restored": (
        "save optimizer.state_dict() and load it after the optimizer was built from the parameters of the "
        "restored model"
    ),
    "options-not-restored": (
        "save the state of whatever changes the options of parameter groups, together with the optimizer"
    ),
    "lr-schedule-off": (
        "save scheduler.state_dict(), build the scheduler before loading, load it after the optimizer, and step "
        "it once per optimizer step, independent of the number of ranks"
    ),
    "scaler-not-restored": "save scaler.state_dict() and load it",
    "ema-not-restored": "save the averaged model's state_dict(), including its count of updates, and load it",
    "rng-not-restored": (
        "each rank saves the streams that it draws from (torch.get_rng_state, random.getstate, "
        "numpy.random.get_state; on GPUs torch.cuda.get_rng_state) and restores them last, after the data loader "
        "has reached its position; in the data set and in loader workers, draw from a generator seeded by epoch "
        "and index"
    ),
    "rng-unused-not-restored": (
        "save and restore this stream as the others, before code that draws from it decides about the training; or "
        "accept the finding as long as only side effects (names of files, log lines) draw from it"
    ),
    "extra-state-not-restored": "restore the named counter or table from the checkpoint, too",
    "data-replayed": _LOADER,
    "data-skipped": _LOADER,
    "data-reordered": (
        "derive the data order from the seed and the epoch only (a sampler with set_epoch, also called on the "
        "resume, or a separate generator that is saved), not from a stream that other code draws from; if the "
        "samples themselves differ, draw the augmentation from a generator seeded by epoch and index"
    ),
    "data-differs": (
        "print the numbers of the rows that the job takes in its first step after the resume, and in that step of an "
        "uninterrupted run: if they are equal, restore the random streams that change the rows, else the position in "
        "the data; chaoskit knows rows of torch's data loader, and rows taken of a tensor or a memory map in CPU memory"
    ),
    "global-batch-changed": (
        "when the number of ranks changes, change the micro-batch or the accumulation accordingly"
    ),
    "restarted-from-scratch": (
        "look for the newest checkpoint at each start, and exit with an error if one should exist and none can "
        "be read: that one should exist is shown by a marker that the first save leaves in {out} or beside the "
        "checkpoints, as a file of its own, not inside the directory of a checkpoint (--resume-args adds arguments "
        "to the script on a relaunch)"
    ),
    "stale-checkpoint": (
        "choose the newest complete checkpoint by its step as a number, and move the pointer as soon as the "
        "checkpoint is written"
    ),
    "corrupt-accepted": (
        "store a checksum of every file of a checkpoint, compare before loading, and fall back to the newest "
        "checkpoint that matches"
    ),
    "checkpoint-unfaithful": (
        "copy the state at the step at which it is saved: no live tensor that a later step changes (clone it before an "
        "asynchronous save), no weights of an average that are swapped in, no state from before the update"
    ),
    "torn-checkpoint": (
        "write under another name, fsync, then rename, with a marker last; resume from the newest checkpoint "
        "that has the marker"
    ),
    "checkpoint-lost": (
        "write the new checkpoint beside the old one, and remove the old one once the new one is complete"
    ),
    "checkpoint-not-durable": (
        "fsync each file and its directory before the checkpoint is renamed or a pointer names it"
    ),
    "poisoned-checkpoint": (
        "check loss and gradients before saving, and do not save a state that contains NaN or infinity"
    ),
    "unpickles-freely": (
        "load with torch.load(weights_only=True), or keep tensors in safetensors; where the format itself unpickles, "
        "as torch.distributed.checkpoint does with .metadata, let nobody but the job write to its checkpoints, and "
        "accept the finding"
    ),
    "grace-too-short": (
        "give the pods of the job a longer terminationGracePeriodSeconds than the save takes after SIGTERM, with the "
        "step before it (for pods that chaoskit makes: grace in [tool.chaoskit.kubernetes]), or make that save faster; "
        "a machine that is shut down may cut every grace short"
    ),
    "no-emergency-checkpoint": (
        "save at the end of the step in which the notice came (look at the flag after every step, not once an epoch)"
    ),
    "emergency-too-late": (
        "make the save faster, begin it at the end of the step in which the notice came, and ask for the notice more "
        "often; or ask the scheduler for more notice"
    ),
    "emergency-torn": (
        "let the ranks agree at the end of each step (all_reduce of the flag) whether any of them was given notice, "
        "and save together after the same step"
    ),
    "debris-left": "remove the leftovers of an interrupted save at the start or before the next save",
    "disk-use-grows": "count interrupted checkpoints when removing the oldest ones",
    "hang": (
        "give the process group a timeout, and make every rank reach the same decision before it enters a "
        "collective"
    ),
    "crash-loop": "read the last launch's log: the error that ended its ranks prevents the recovery",
    "failure-policy-final": (
        "in podFailurePolicy, take only those exit codes as final (FailJob, FailIndex) that no restart mends; torchrun "
        "ends with 1 whatever has ended a rank"
    ),
    "restart-budget-spent": (
        "raise backoffLimit or backoffLimitPerIndex: each restart of a job of N pods takes up to N of it"
    ),
    "exited-early": (
        "exit with a code other than 0 while steps remain, so that the scheduler relaunches the job; and count "
        "steps from the checkpoint's step, not from 0"
    ),
    "orphans": (
        "end child processes together with the rank that started them (a process group, prctl's PR_SET_PDEATHSIG)"
    ),
    "needless-restart": (
        "retry the operation, up to a limit, before giving up; after a notice of preemption that names a time, save "
        "and go on until the node is really taken away"
    ),
    "notice-ignored": (
        "ask for the notice as the cloud demands (AWS: a token by PUT first; Google: Metadata-Flavor: Google; Azure: "
        "Metadata: true and api-version), every second or so, in a thread of each node; and end on SIGTERM"
    ),
    "slow-recovery": "save more often, shorten the process group's timeout, or make the start cheaper",
    "straggler-unnoticed": (
        "compare the time that each rank works on a step, not the time of the step, and log the rank that is slow"
    ),
    "loss-diverged": (
        "every compared component is right up to this step: look for other inputs of a step (a cache, a global, "
        "the clock) and for nondeterministic operations"
    ),
    "ranks-diverged": "let one rank load and broadcast, or let all load the same file, and compare digests once",
    "nonfinite-accepted": "stop, or skip the update, when a loss or a gradient norm is not finite",
    "corruption-accepted": "monitor the gradient norm and the replicas' digests, and roll back when they jump",
    "corruption-saved": "before each save, run the checks that run before each step",
    "corruption-spread": "check before the collective, not after it",
    "log-wrong": "truncate the log to the step that the job resumes from, or write the step number on each line",
    "nothing-to-resume": (
        "let the fault strike at least two steps after the first save, or let the job save earlier or train longer"
    ),
    "fault-not-observed": (
        "read the sentence of the verdict: choose a step or a save that the job reaches, or a file that it reads"
    ),
    "not-deterministic": (
        "seed python, numpy and torch before the model is built and before the data is shuffled, and set "
        "torch.use_deterministic_algorithms(True); or run more controls (--controls)"
    ),
    "probe-blind": (
        "report from the training loop the values that the probe cannot see: call chaoskit.probe.step(loss=, "
        "batch=, model=, optimizer=) before each optimizer step; save below {out} with torch.save, "
        "torch.distributed.checkpoint or safetensors"
    ),
    "window-wrong": (
        "run the battery again: chaoskit has noted that windows of this job are wrong, and trains every experiment to "
        "its end from now on"
    ),
    "reference-failed": "run the command by hand: it must finish with exit code 0 without any fault",
    "reference-nonfinite": (
        "repair the training itself: torch.autograd.set_detect_anomaly(True) names the operation that makes the first "
        "NaN; then look at the learning rate, divisions, logarithms and empty means"
    ),
}


def remedies(codes: Iterable[str], advice: Mapping[str, str] | None = None) -> Iterator[tuple[str, str]]:
    """What to change for these codes, each remedy once, with the first code that asks for it; `advice`, which findings
    give, comes before the remedy of a code."""
    seen: set[str] = set()
    for code in codes:
        remedy = (advice or {}).get(code) or REMEDIES.get(code)  # a stored run may have codes of a later chaoskit
        if remedy is not None and remedy not in seen:
            seen.add(remedy)
            yield code, remedy
