"""Arguments for relaunches: once a save has settled, with the names of what is there; and whose fault a failure is."""

import json
import os

import pytest

from chaoskit import Job, checks
from chaoskit.capabilities import StoredCheckpoint
from chaoskit.engine.resume_arguments import ResumeArguments, newest
from chaoskit.errors import UsageError
from tests.history_writer import Writer


class Stored:
    """An environment with these checkpoints, newest first."""

    def __init__(self, *checkpoints):
        self.found = tuple(StoredCheckpoint(files, {}) for files in checkpoints)

    def out(self): ...
    def aside(self): ...
    def checkpoint_paths(self): ...

    def stored_checkpoints(self):
        if not self.found:
            raise LookupError("none")
        return self.found


@pytest.fixture
def told(tmp_path):
    """The words that a relaunch gets, by the record of the launch before it."""
    (tmp_path / "events").mkdir()

    def ask(run, *words, env=None, reference=None):
        sources = {}
        for event in run.events:
            lines = sources.setdefault(event.source, [])
            lines.append(json.dumps({"i": len(lines), "t": event.t, "e": event.kind, **event.data}) + "\n")
        for source, lines in sources.items():
            (tmp_path / "events" / f"{source}.jsonl").write_text("".join(lines))
        job = Job.from_command(["train", "{out}"], resume_args=words)
        reference = reference or run.case().reference
        return ResumeArguments(job, env or Stored(), tmp_path, tmp_path / "out", reference).words()

    return ask


def killed(until, **options):
    return Writer().launch().live(until=until, **options).fault().died()


def test_before_any_checkpoint_there_are_none(told):
    assert told(killed(12), "--resume") == []


def test_before_the_first_one_has_settled_there_are_none(told):
    assert told(killed(20, torn=True), "--resume", env=Stored(("step-20.pt",))) == []


def test_once_a_save_has_settled_they_are_there_and_filled_in(told, tmp_path):
    out = tmp_path / "out"
    assert told(killed(25), "--resume", "{out}/x") == ["--resume", f"{out}/x"]


def test_the_newest_checkpoint_is_named(told, tmp_path):
    env = Stored(("step-40/a", "step-40/deep/b"), ("step-20/a",))
    out = tmp_path / "out"
    assert told(killed(45), "--from={newest:step-*}", env=env) == [f"--from={out}/step-40"]
    assert told(killed(45), "{newest:*/deep/*}", env=env) == [f"{out}/step-40/deep/b"]


def test_one_that_is_gone_is_named_all_the_same(told, tmp_path):
    """A job that is told nothing would start from scratch, and that would come of us."""
    assert told(killed(45), "{newest:step-*}") == [f"{tmp_path}/out/step-*"]


def test_where_no_save_can_be_seen_they_are_always_there(told):
    run = Writer(every=1000).launch().live(until=25).fault().died()
    assert run.case().reference.saves == ()
    assert told(run, "--resume") == ["--resume"]


def test_the_newest_of_files_that_no_save_is_known_of(tmp_path):
    for at, name in enumerate(("step-9", "step-10", "other")):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (at, at))
    assert newest(tmp_path, "step-*") == "step-10"
    assert newest(tmp_path, "none-*") is None


@pytest.mark.parametrize("word", ["{newest}", "{newest:}", "{newest:/tmp/*}", "{newest:../*}", "{newest:a"])
def test_a_pattern_that_leads_nowhere_is_refused(word):
    with pytest.raises(UsageError, match="resume_args"):
        Job.from_command(["train", "{out}"], resume_args=[f"--from={word}"])


def failing(*, added, resumed=False):
    run = killed(25)
    for _ in range(3):
        run.launch(**({"added": ["--from", "x"]} if added else {}))
        if resumed:
            run.live(base=20, until=22)
        run.exit(1)
    return run.end("gave-up")


def test_a_failure_that_may_come_of_what_was_added_says_so():
    said = checks.completed()(failing(added=True).case())
    assert said.codes == ("crash-loop",) and "chaoskit had appended '--from x'" in said.sentence


@pytest.mark.parametrize("options", [{"added": False}, {"added": True, "resumed": True}])
def test_a_failure_that_does_not_come_of_it_does_not(options):
    said = checks.completed()(failing(**options).case())
    assert said.codes == ("crash-loop",) and "appended" not in said.sentence
