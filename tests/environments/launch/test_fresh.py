"""A forked process is what a fresh interpreter would have been: whatever it can tell of itself is compared, and how it
ends. What differs is listed here, and in docs/explanation/launching.md."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chaoskit.environments.launch.launcher import LaunchEnd
from chaoskit.environments.launch.warm import WarmLauncher
from tests.environments.launch.stage import COLD, LIMIT, PYTHON, TORCHRUN, WARM, Stage, ended, over

MIRROR = Path(__file__).with_name("mirror.py")
SCRIPT = str(Path(PYTHON).with_name("torchrun"))
#: What runs the mirror, and the ends of the names of the files that it leaves.
COMMANDS: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "a script": ([PYTHON, "mirror.py"], ("",)),
    "a module, oddly": (["python", "-m", "mirror"], ("",)),
    "ranks of a script": ([SCRIPT, "--nproc-per-node", "2", "mirror.py"], ("-0", "-1")),
    "a rank of a module": ([*TORCHRUN, "1", "-m", "mirror"], ("-0",)),
}
#: Where the path is relative, output is not buffered, the locale is not set and the directory has two names.
ODD = {"PYTHONPATH": ":lib:absent", "PYTHONUNBUFFERED": "1", "LANG": None}
#: What differs from one launch to the next, cold or warm.
BY_NATURE = ("MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE")
#: The parent of a fresh command is a keeper that was started with `-I -S`, that of a warm one a fork.
KEEPER = "above"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the mirror runs."""
    return tmp_path_factory.mktemp("mirror")


@pytest.fixture(scope="module")
def reflections(place: Path) -> dict[str, Any]:
    """Of each command the descriptions that its processes gave of themselves, started cold and warm."""
    found: dict[str, Any] = {}
    for kind, launcher in (("cold", COLD), ("warm", WARM)):
        # One after the other in the same place, which is a part of what is told.
        shutil.rmtree(place)
        (place / "lib").mkdir(parents=True)
        (place / "link").symlink_to(place)
        shutil.copy(MIRROR, place)
        stage = Stage(place, "test-mirror")
        launches = {}
        for name, (command, _) in COMMANDS.items():
            odd: dict[str, Any] = {**ODD, "cwd": place / "link"} if "oddly" in name else {}
            launches[name] = stage.start([*command, f"out {name}"], launcher=launcher, log=f"log {name}", **odd)
        for name, launch in launches.items():
            outcome = over(launch, place / f"log {name}")
            assert (outcome.end, outcome.how) == (LaunchEnd(0), kind), outcome.text
            told = [(place / f"out {name}{end}").read_text() for end in COMMANDS[name][1]]
            found[f"{name}, {kind}"] = [json.loads(text) for text in told]
    return found


def flat(told: Any, path: str = "") -> dict[str, Any]:
    """Every leaf by its path."""
    if isinstance(told, Mapping):
        return {key: leaf for name, value in told.items() for key, leaf in flat(value, f"{path}/{name}").items()}
    if isinstance(told, list) and len(told) < 20:
        leaves = {key: leaf for i, value in enumerate(told) for key, leaf in flat(value, f"{path}/{i}").items()}
        return {**leaves, f"{path}/length": len(told)}
    return {path: told}


def differences(one: Any, two: Any) -> dict[str, tuple[Any, Any]]:
    """The leaves that are not equal, but for those that never are."""
    one, two = flat(one), flat(two)
    return {
        path: (one.get(path), two.get(path))
        for path in sorted({*one, *two})
        if one.get(path) != two.get(path) and not path.endswith(BY_NATURE)
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_fork_can_tell_no_difference(reflections, name):
    for cold, warm in zip(reflections[f"{name}, cold"], reflections[f"{name}, warm"], strict=True):
        if "rank" not in name:
            assert cold["like"].pop(KEEPER)[-2:] == warm["like"].pop(KEEPER)[-2:]
        assert differences(cold["like"], warm["like"]) == {}


@pytest.mark.parametrize("name", [name for name in COMMANDS if "rank" in name])
def test_ranks_are_children_of_their_agent(reflections, name):
    told = reflections[f"{name}, warm"]
    assert len({rank["identity"]["ppid"] for rank in told}) == 1
    for rank in told:
        assert rank["like"]["above"][-len(COMMANDS[name][0]) : -1] == COMMANDS[name][0][1:]
        assert rank["like"]["leads its session"] and rank["like"]["leads its group"]


def test_ranks_are_forked_where_the_locale_is_not_set(reflections, place, run_id):
    """Their agent's interpreter has set it for them, as it did for their parent."""
    stage = Stage(place / "link", run_id)
    stage.script("import os, sys\nprint(os.environ['LC_CTYPE'], 'chaoskit.environments.launch.fresh' in sys.modules)")
    assert "C.UTF-8 True" in stage.play([*TORCHRUN, "1", "prog.py"], **ODD).text


def test_each_process_draws_seeds_of_its_own(reflections):
    processes = [process for told in reflections.values() for process in told]
    for seed in processes[0]["seeds"]:
        drawn = [process["seeds"][seed] for process in processes]
        assert len(set(drawn)) == len(drawn), seed


def test_a_seed_of_hash_is_kept(reflections):
    assert len({process["identity"]["hash"] for told in reflections.values() for process in told}) == 1


def test_hash_has_another_seed_at_every_other_launch(stage):
    program = stage.script("print(hash('a'))")
    told = [
        stage.play([PYTHON, program], CHAOSKIT_LAUNCH=str(launch), PYTHONHASHSEED=None).text
        for launch in (0, 1, 2)
    ]
    assert told[0] == told[2] != told[1]


ENDS = {
    "a code": "raise SystemExit(3)",
    "a text": "import sys; sys.exit('so long')",
    "neither": "import sys; sys.exit()",
    "by itself": "'''Mine'''\nx: int = 1\nprint(__doc__, __annotations__, sorted(globals()))",
    "an exception": "print('before')\ndef f(): raise ValueError('no')\nf()",
    "one from another": "try: 1/0\nexcept ArithmeticError as error: raise KeyError('k') from error",
    "several": "raise ExceptionGroup('several', [ValueError(1), TypeError(2)])",
    "no source": "x = (\n",
    "a hook": "import sys\nsys.excepthook = lambda *of: print(of[0], of[2].tb_lineno, sys.exc_info())\n1/0",
    "a hook that exits": "import sys\nsys.excepthook = lambda *_: sys.exit(9)\n1/0",
    "at exit": "import atexit, sys\natexit.register(lambda: print(sys.last_value, sys.last_traceback.tb_lineno))\n1/0",
    "badly at exit": """
import atexit
class Callback:
    def __call__(self): 1 / 0
    def __repr__(self): return "callback"
atexit.register(print, "first")
atexit.register(Callback())
""",
    "at once": "import os; print('lost'); os._exit(5)",
    "killed": "import os; print('lost'); os.kill(os.getpid(), 9)",
    "terminated": "import os; os.kill(os.getpid(), 15)",
    "crashed": "import os; os.kill(os.getpid(), 11)",
    "interrupted": "print('before')\ndef f(): raise KeyboardInterrupt\nf()",
    "interrupted from without": "import os, time\nos.kill(os.getpid(), 2)\ntime.sleep(60)",
    "a thread": "import threading, time\nthreading.Thread(target=lambda: print(time.sleep(0.1), 'last')).start()",
    "a failing thread": "import threading\nthreading.Thread(target=lambda: 1/0).start()",
    "torn down": "class A:\n def __del__(self): print('gone', __name__)\na = A()\na.self = a",
    "in turns": "import os, sys\nprint('a')\nprint('b', file=sys.stderr)\nos.write(1, b'c')",
    "a fork": "import os\nprint('twice')\nif os.fork(): print(os.wait()[1])",
    "another program": "import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'print(1)'])",
    "input": "import sys\nprint(repr(sys.stdin.read()))\ninput()",
}


#: Where a module could end otherwise than a script.
BY_MODULE = ("by itself", "a text", "an exception", "a hook", "at exit", "interrupted", "torn down")


@pytest.mark.parametrize(
    ("how", "command"),
    [*((how, ["prog.py"]) for how in ENDS), *((how, ["-m", "prog"]) for how in BY_MODULE)],
)
def test_it_ends_as_a_fresh_one_would(stage, how, command):
    stage.script(ENDS[how])
    cold, warm = stage.both([PYTHON, *command])
    assert (warm.how, cold.how) == ("warm", "cold")
    assert (warm.end, warm.text) == (cold.end, cold.text)


@pytest.mark.parametrize(("how", "code"), [("a code", 3), ("a text", 1), ("at once", 5), ("crashed", -11)])
def test_ends_have_the_codes_that_everybody_knows(stage, how, code):
    assert stage.play([PYTHON, stage.script(ENDS[how])]).end == LaunchEnd(code)


def test_the_agent_learns_what_became_of_a_rank(stage):
    stage.script("import os, time\nos.environ['RANK'] == '1' and os.kill(os.getpid(), 11)\ntime.sleep(1000)")
    outcome = stage.play([*TORCHRUN, "2", "prog.py"])
    assert outcome.end == LaunchEnd(1)
    for said in ("exitcode  : -11 (pid:", "rank      : 1 (local_rank: 1)", "Signal 11 (SIGSEGV) received by PID"):
        assert said in outcome.text


def test_names_are_those_that_exec_would_give(stage):
    told = "import sys; print(open('/proc/self/comm').read(), sys.orig_argv, open('/proc/self/cmdline').read())"
    script = stage.place / stage.script(f"#!{PYTHON}\n{told}")
    script.chmod(0o755)
    for command in ([PYTHON, "prog.py"], ["python", "prog.py"], [str(script)], ["./prog.py", "a\nb", ""]):
        cold, warm = stage.both(command)
        assert warm.text == cold.text


def test_a_module_that_was_edited_is_read_anew(stage):
    program = stage.script(
        "import sys\nassert 'helper' not in sys.modules\nimport helper\nprint(helper.A)\n"
        "try: import late; print('late')\nexcept ImportError: print('none')"
    )
    (stage.place / "helper.py").write_text("A = 1")
    assert stage.play([PYTHON, program]).text.split() == ["1", "none"]
    (stage.place / "helper.py").write_text("A = 234")
    (stage.place / "late.py").touch()
    assert stage.play([PYTHON, program]).text.split() == ["234", "late"]


PACKAGE = """
import os
os.environ.setdefault("SET", "by it")
os.environ.setdefault("GIVEN", "by it")
"""
PROGRAM = """
import importlib.util, os, sys
import setter
how = "forked" if "chaoskit.environments.launch.fresh" in sys.modules else "fresh"
print(os.environ["SET"], os.environ["GIVEN"], how)
print(importlib.util.find_spec("later"))
"""


def test_what_a_package_does_to_the_environment_it_did_for_everybody(stage):
    """And a directory of the path that is not there yet is looked for again."""
    (stage.place / "setter.py").write_text(PACKAGE)
    stage.script(PROGRAM)
    launcher = WarmLauncher(("setter",), threads="1", demanded=True)
    env = {"PYTHONPATH": ".:absent", "GIVEN": "before"}
    outcome = stage.play([PYTHON, "prog.py"], launcher=launcher, **env)
    assert outcome.text.splitlines() == ["by it before forked", "None"]
    (stage.place / "absent" / "later").mkdir(parents=True)
    outcome = stage.play([*TORCHRUN, "1", "prog.py"], launcher=launcher, **env)
    assert outcome.text.splitlines()[-2] == "by it before forked"
    assert "absent/later" in outcome.text.splitlines()[-1]


CHILDREN = """
import multiprocessing, os, pickle

class Point:
    def __init__(self, x):
        self.x = x

class Squares:
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return i * i

def double(point):
    return Point(2 * point.x), multiprocessing.current_process().name, os.getppid()

if __name__ == "__main__":
    import torch
    from torch.utils.data import DataLoader
    assert pickle.loads(pickle.dumps(Point(1))).x == 1
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(1) as pool:
            point, _, parent = pool.apply(double, (Point(21),))
            print(method, type(point) is Point, point.x, parent == os.getpid(), flush=True)
        if method != "forkserver":
            print(torch.cat(list(DataLoader(Squares(), 2, num_workers=1, multiprocessing_context=context))).tolist())
"""


def test_children_of_a_warm_rank_work(stage):
    stage.script(CHILDREN)
    outcome = stage.play([*TORCHRUN, "1", "prog.py"])
    assert outcome.end == LaunchEnd(0), outcome.text
    expected = [
        "fork True 42 True",
        "[0, 1, 4, 9]",
        "spawn True 42 True",
        "[0, 1, 4, 9]",
        "forkserver True 42 False",
    ]
    assert outcome.text.splitlines()[-5:] == expected


def test_an_interrupt_of_the_group_reaches_the_program(stage, until):
    program = stage.script("import signal\nopen('up', 'w').close()\nsignal.pause()")
    launch = stage.start([PYTHON, program])
    until((stage.place / "up").exists, timeout=LIMIT)
    os.killpg(launch.process.pid, 2)
    assert ended(launch) == LaunchEnd(-2)
    launch.close()
    assert "KeyboardInterrupt" in (stage.place / "log").read_text()
    assert "forkserver" not in (stage.place / "log").read_text()
