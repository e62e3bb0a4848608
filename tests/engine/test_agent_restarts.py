"""Restarts by the job's own agent, inside one launch: what waits for a relaunch strikes and heals there too."""

from __future__ import annotations

import pytest

from chaoskit import Job, faults
from chaoskit.capabilities import ProcessRef
from chaoskit.environments.environment import Arrived, Ended
from tests.engine.test_controller import Played, carry

TORCHRUN = ("torchrun", "--max-restarts", "5", "train.py")


class Processes(Played):
    """Nodes with one rank, whose process number `pid` lives until it is killed; an act (at, pid, restart) is its
    arrival at a gate."""

    def __init__(self, root, *acts):
        super().__init__(root, *acts)
        self.pid, self.gone = 0, set()

    def wait(self, timeout):
        act = self.acts[0] if self.acts and self.held is None else None
        if not isinstance(act, tuple):
            return super().wait(timeout)
        at, self.pid, restart = self.acts.pop(0)
        self.held = f"{at} of {self.pid}"
        return [Arrived(0, self.index, restart, self.pid, at, 4)]

    def rank_process(self, rank):
        if self.pid in self.gone:
            raise LookupError(f"rank {rank} is gone")
        return ProcessRef(self.pid, "then")

    def launcher_processes(self):
        return [ProcessRef(999, "then")]

    def signal(self, process, signum):
        self.gone.add(process.pid)
        self.held = None
        return True

    def state(self, process):
        return "gone" if process.pid in self.gone else "running"

    def delivered(self, process, signum):
        return True


def run(env, *schedule, command=TORCHRUN):
    status, events = carry(env, env.out(), *schedule, run_dir=env.root, command=command)
    kinds = [event.kind for event in events if event.kind.startswith(("fault", "launch.", "run"))]
    return status, kinds[len(schedule) :]


STRUCK = ["launch.start", "launch.how", "fault.requested", "fault.applied", "fault.observed"]
AGAIN = ["fault.requested", "fault.applied"]


def test_it_strikes_when_the_ranks_are_gone_and_before_they_are_back(tmp_path):
    seen = []
    env = Processes(tmp_path, ("start", 1, 0), ("step", 1, 0), 0.05, lambda env: seen.append(bool(env.cuts)))
    status, kinds = run(env, faults.kill(rank=0).at_step(5), faults.partition(seconds=30).before_relaunch())
    assert status == "finished" and seen == [True]
    assert kinds == [*STRUCK, *AGAIN, "launch.end", "fault.healed", "run.end"]


def test_where_nobody_saw_them_go_it_strikes_before_the_ranks_meet_again(tmp_path):
    seen = []
    acts = [("start", 1, 0), ("step", 1, 0), lambda env: seen.append(bool(env.cuts))]
    env = Processes(tmp_path, *acts, ("start", 2, 1), lambda env: seen.append(bool(env.cuts)))
    unknown = ("bash", "launch.sh")  # nothing says that its agent restarts anything
    schedule = [faults.kill(rank=0).at_step(5), faults.partition(seconds=30).before_relaunch()]
    status, kinds = run(env, *schedule, command=unknown)
    assert status == "finished" and seen == [False, True]
    assert kinds == [*STRUCK, *AGAIN, "launch.end", "fault.healed", "run.end"]


def test_once_a_rank_has_begun_to_train_it_is_too_late(tmp_path):
    env = Processes(tmp_path, ("start", 1, 0), ("step", 1, 0), ("step", 2, 1))
    schedule = [faults.kill(rank=0).at_step(5), faults.partition(seconds=30).before_relaunch()]
    _, kinds = run(env, *schedule, command=("bash", "launch.sh"))
    assert kinds == [*STRUCK, "launch.end", "run.end"]


def test_a_fault_that_ends_no_rank_is_followed_by_no_restart(tmp_path):
    """The ranks are gone when the job has done its work: nothing strikes it then."""
    env = Processes(tmp_path, ("start", 1, 0), ("step", 1, 0), 0.05, lambda env: env.gone.add(1), 0.05)
    schedule = [faults.noop().at_step(5), faults.partition(seconds=30).before_relaunch()]
    _, kinds = run(env, *schedule)
    assert kinds == [*STRUCK, "launch.end", "run.end"]


def test_what_lasts_for_a_launch_lasts_for_a_restart(tmp_path):
    cut = faults.hide(launches=1)
    seen = []
    env = Processes(
        tmp_path, ("start", 1, 0), ("step", 1, 0), 0.05, lambda env: seen.append(env.hidden()),
        ("start", 2, 1), ("start", 3, 2), lambda env: seen.append(env.hidden()),
    )  # fmt: skip
    stored = tmp_path / "out" / "checkpoints"
    stored.mkdir()
    (stored / "1").write_bytes(bytes(9))
    env.hidden = lambda: not (stored / "1").exists()
    env.aside = lambda: (tmp_path / "aside").mkdir() or tmp_path / "aside"
    env.checkpoint_paths = lambda: ("checkpoints",)
    env.stored_checkpoints = tuple
    status, kinds = run(env, faults.kill(rank=0).at_step(5), cut.before_relaunch())
    assert status == "finished" and seen == [True, False]
    assert kinds == [*STRUCK, *AGAIN, "fault.observed", "fault.healed", "launch.end", "run.end"]


def test_a_relaunch_is_no_restart(tmp_path):
    env = Processes(tmp_path, ("start", 1, 0), ("step", 1, 0), Ended(0, 1), ("start", 2, 0), 0.05)
    schedule = [faults.kill(rank=0).at_step(5), faults.partition(seconds=30).before_relaunch()]
    _, kinds = run(env, *schedule, command=("torchrun", "train.py"))
    assert kinds[5:9] == ["launch.end", *AGAIN, "launch.start"]


@pytest.mark.parametrize(
    ("words", "variable", "known"),
    [
        (["torchrun", "--max-restarts", "5", "t.py"], {}, 5),
        (["torchrun", "--max_restarts=4", "t.py"], {"PET_MAX_RESTARTS": "2"}, 4),
        (["sh", "-c", "exec torchrun --max-restarts=3 t.py"], {}, 3),
        (["torchrun", "t.py"], {"PET_MAX_RESTARTS": "2"}, 2),
        (["torchrun", "t.py"], {}, 0),
        (["python", "t.py", "--my-max-restarts", "9"], {}, 0),
    ],
)
def test_how_often_an_agent_restarts(words, variable, known, monkeypatch):
    monkeypatch.delenv("PET_MAX_RESTARTS", raising=False)
    assert Job.from_command(words, env=variable).agent_restarts == known
    assert Job("t.py", max_restarts=2).agent_restarts == 2


def hidden(tmp_path, *acts):
    """A job with a checkpoint, and whether it saw that at the moments that `look` stands for."""
    env, seen = Processes(tmp_path, *acts), []
    stored = tmp_path / "out" / "checkpoints"
    stored.mkdir()
    (stored / "1").write_bytes(bytes(9))
    env.aside = lambda: (tmp_path / "aside").mkdir() or tmp_path / "aside"
    env.checkpoint_paths = lambda: ("checkpoints",)
    env.stored_checkpoints = tuple
    env.look = lambda env: seen.append((stored / "1").exists())
    return env, seen


@pytest.mark.parametrize("launcher", [True, False], ids=["its agent is killed too", "its agent gives up"])
def test_what_lasts_for_a_launch_is_there_in_the_relaunch(tmp_path, launcher):
    """All ranks are gone and the agent might restart them, but it ends: the relaunch is the launch that was meant."""
    acts = [("start", 1, 0), ("step", 1, 0), 0.05, Ended(0, 1), ("start", 2, 0), lambda env: env.look(env)]
    env, seen = hidden(tmp_path, *acts, Ended(1, 1), ("start", 3, 0), lambda env: env.look(env))
    kill = faults.kill(launcher=True) if launcher else faults.kill(rank=0)
    status, kinds = run(env, kill.at_step(5), faults.hide(launches=1).before_relaunch())
    assert status == "finished" and seen == [False, True]
    assert kinds.count("fault.healed") == 1
