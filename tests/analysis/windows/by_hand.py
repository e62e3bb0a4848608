"""Runs in a window, written by hand: 60 steps with a save every 10, begun from the state of step 20, struck at step 25,
and ended by chaoskit."""

from chaoskit.analysis.reference.reference import Reference
from tests.history_writer import Writer


def reference(run):
    """Two equal controls of a writer, which keep their last checkpoint."""
    left = {"launch": 0, "files": [[f"step-{run.steps}.pt", 9]]}
    return Reference.of([run.control().say("files", **left).history() for _ in range(2)])


def begun(*, save=20, **options):
    """The record of the keeping run, as it is put into a run that begins from the state after that save."""
    run = Writer(every=10, **options)
    run.launch(out="/runs/1/out").live(until=save + 1)
    run.say("launch.end", launch=0, code=None, cause="window", survivors=[])
    run.say("files", launch=0, files=[[f"step-{save}.pt", 9]])
    return run.say("window", save=save, at=save + 1, of=run.steps)


def killed(*, at=25, base=20, until=42, **how):
    """A run that begins late, is killed after step `at`, and resumes from `base`; `how` it lives then."""
    options = {name: how.pop(name) for name in ("content", "ranks", "names", "hold", "samples") if name in how}
    run = begun(**options)
    run.launch(out="/runs/1/out").live(base=20, until=at).fault().died()
    return run.launch(out="/runs/1/out").live(base=base, until=until, **how)


def stopped(run, *files):
    """chaoskit has ended the run in its window."""
    run.exit(None, cause="window", survivors=[{"pid": 7}])
    run.say("files", launch=run.launches, files=[list(each) for each in files])
    return run.end("window")
