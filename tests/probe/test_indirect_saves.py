"""Checkpoints that come to their place by a detour: a buffer in memory, a temporary file that somebody copies."""

import signal
from contextlib import closing
from pathlib import Path

import pytest

from tests.probe.test_saves import HEAD, AtGate

STATE = """
import io, shutil, subprocess, tempfile
def state(): return {"model": net.state_dict(), "optimizer": opt.state_dict()}
def buffered(what=None):
    buffer = io.BytesIO(); torch.save(what or state(), buffer); return buffer.getvalue()
def temporary():
    return os.path.join(tempfile.mkdtemp(), "last.pt")
"""
#: How a save comes below {out}: all must be seen as one save of step 2, whole, before step 3.
WAYS = {
    "written": 'data = buffered(); open(out + "/last.pt", "wb").write(data)',
    "by descriptor": """
data = buffered()
fd = os.open(out + "/last.pt", os.O_WRONLY | os.O_CREAT); os.write(fd, data); os.close(fd)""",
    "moved": """
data = buffered(); at = temporary(); open(at, "wb").write(data)
shutil.move(at, out + "/last.pt")""",
    "replaced": """
data = buffered(); open(out + "/../part", "wb").write(data); os.replace(out + "/../part", out + "/last.pt")""",
    "after a text": """
data = buffered(); open(out + "/log.txt", "a").write("saving"); os.makedirs(out + "/more")
open(out + "/last.pt", "wb").write(data)""",
}


def saves(run):
    return [(Path(save.path).name, save.n, save.full, save.ok) for save in run.life.saves]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_goes_through_memory_is_a_save_of_the_file_that_it_comes_to(probed, way):
    run = probed(HEAD + STATE + f"step(); step()\n{way}\nstep(); torch.load(out + '/last.pt')\n")
    assert run.code == 0 and not run.life.errors, run.output
    assert saves(run) == [("last.pt", 2, True, True)]
    (begin,), (end,), (load,) = (run.events(kind) for kind in ("save.begin", "save.end", "load.end"))
    assert begin["content"] == load["content"] and "optimizer.state.0.exp_avg" in begin["content"]
    third = run.events("step")[2]
    assert begin.t <= end.t <= third.t and third["n"] == 3


def test_two_in_a_row_are_two(probed):
    run = probed(
        HEAD
        + STATE
        + """
step()
for name in ("a", "b"):
    data = buffered(); open(f"{out}/{name}.pt", "wb").write(data)
"""
    )
    assert saves(run) == [("a.pt", 1, True, True), ("b.pt", 1, True, True)], run.output


@pytest.mark.parametrize(
    "nothing",
    [
        "data = buffered()",
        'data = buffered(); open(out + "/../other.pt", "wb").write(data)',
        'data = buffered(); open(out + "/log.txt", "w").write("saved")',
        'data = buffered(net.state_dict()); open(out + "/weights.pt", "wb").write(data)',  # no training state
        'data = buffered(); step(); open(out + "/metrics.bin", "wb").write(b"1")',
        'open(out + "/file.bin", "wb").write(b"1"); data = buffered(); open(out + "/file.bin", "rb").read()',
        "torch.save(state(), temporary())",
        'at = temporary(); torch.save(state(), at); subprocess.run(["cp", at, out + "/other-name"])',
        'at = temporary(); torch.save(net.state_dict(), at); subprocess.run(["cp", at, out])',
    ],
)
def test_what_comes_to_no_file_is_no_save(probed, nothing):
    run = probed(HEAD + STATE + f"step()\n{nothing}\nstep()\n")
    assert run.code == 0 and not run.life.errors and run.life.saves == [], run.output


@pytest.mark.parametrize("late", ["", "; step()"])
def test_a_temporary_file_that_is_copied_without_a_word_of_pythons(probed, late):
    run = probed(
        HEAD
        + STATE
        + f"""
step(); step()
at = temporary(); torch.save(state(), at){late}; os.makedirs(out + "/checkpoint_2026-11-22")
subprocess.run(["cp", at, out + "/checkpoint_2026-11-22"]); shutil.rmtree(os.path.dirname(at)); step()
torch.load(out + "/checkpoint_2026-11-22/last.pt")
"""
    )
    assert saves(run) == [("last.pt", 2, True, True)] and not run.life.errors, run.output
    assert run.life.saves[0].path.startswith(str(run.run_dir / "out" / "checkpoint_2026-11-22"))
    assert run.events("save.begin")[0]["content"] == run.events("load.end")[0]["content"]


@pytest.mark.parametrize("way", [WAYS["written"], WAYS["moved"]], ids=["written", "moved"])
def test_a_rank_stops_in_the_middle_of_such_a_save_and_after_it(tmp_path, way):
    with closing(AtGate(tmp_path, HEAD + STATE + f"step(); step()\n{way}\nstep()\n", cold=False)) as program:
        assert (arrived := program.until("save")) is not None and arrived.n == 2
        file = program.out / "last.pt"
        assert not file.exists() or file.stat().st_size == 0
        program.gate.release(0, keep_gating=True)
        assert program.until("saved").n == 2
        program.gate.release(0, keep_gating=True)
        arrived = program.until("step")
        assert arrived.n == 2 and file.stat().st_size > 0
        program.gate.release(0, keep_gating=False)
        assert program.process.wait(timeout=60) == 0
        assert [save.ok for save in program.life.saves] == [True]


def test_a_rank_killed_in_the_middle_of_such_a_save_has_not_saved(tmp_path):
    with closing(AtGate(tmp_path, HEAD + STATE + f"step()\n{WAYS['moved']}\nstep()\n", cold=False)) as program:
        assert program.until("save") is not None
        program.process.kill()
        assert program.process.wait(timeout=20) == -signal.SIGKILL
        (save,) = program.life.saves
        assert save.ended is None and not (program.out / "last.pt").exists()
