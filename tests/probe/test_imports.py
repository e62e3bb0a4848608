"""In a process that was forked, modules that had taken torch's functions by name before the probe came have ours."""

import pytest

#: What a forked process does: all is imported, then the probe starts.
FORKED = """
import os, sys, types, warnings
warnings.simplefilter("error")
import torch, safetensors.torch
class Odd(types.ModuleType):
    "Like torch.classes: whatever is asked of it, it has; or it warns."
    def __getattr__(self, name):
        raise RuntimeError("there is no such class") if name.startswith("__") else Warning(name)
    @property
    def __class__(self):
        warnings.warn("deprecated", FutureWarning)
        return Odd
    __file__ = None
their = types.ModuleType("their.package")
exec('''
import torch, safetensors.torch
from torch import load, save
from safetensors.torch import load_file, save_file as safe_save
from torch.distributed import init_process_group
from torch.autograd import grad
own = lambda: None
odd = torch.classes, torch.ops
classes = torch.classes
''', their.__dict__)
their.strange = Odd("strange")
sys.modules["their.package"] = their
before = dict(vars(their))
{start}
out = os.environ["CHAOSKIT_OUT"]
net = torch.nn.Linear(2, 1); opt = torch.optim.SGD(net.parameters(), lr=0.1)
net(torch.ones(3, 2)).sum().backward(); opt.step()
their.save({{"model": net.state_dict(), "optimizer": opt.state_dict()}}, out + "/a.pt")
their.safe_save(net.state_dict(), out + "/b.safetensors")
their.load(out + "/a.pt"); their.load_file(out + "/b.safetensors")
print("OURS", *sorted(name for name, value in before.items() if vars(their)[name] is not value))
print("SAME", their.save is torch.save, their.safe_save is safetensors.torch.save_file)
"""
START = """
os.environ["CHAOSKIT_RUN"] = os.path.dirname(os.environ["CHAOSKIT_OUT"])
from chaoskit.probe.session import start
start(forked=True)
"""
#: A warm parent has looked ahead for its forks: nobody looks through all modules again.
AHEAD = """
from chaoskit.probe import imports
imports.look_ahead()
imports._holders = None
"""


@pytest.mark.parametrize("before", ["", AHEAD], ids=["looks", "looked ahead"])
def test_what_was_taken_by_name_is_replaced(probed, before):
    run = probed(FORKED.format(start=before + START), probe=False)
    assert run.code == 0, run.output
    assert "OURS grad init_process_group load load_file safe_save save\nSAME True True\n" in run.output
    assert not run.life.errors and "Warning" not in run.output
    assert [save.api for save in run.life.saves] == ["torch.save", "safetensors"]
    assert [load.api for load in run.life.loads] == ["torch.load", "safetensors"]


def test_what_a_module_no_longer_holds_is_left(probed):
    """It was replaced after the parent had looked."""
    changed = "from chaoskit.probe import imports\nimports.look_ahead()\ntheir.load = before['load'] = their.own\n"
    run = probed(FORKED.format(start=changed + START).replace("their.load(out", "torch.load(out"), probe=False)
    assert run.code == 0, run.output
    assert "OURS grad init_process_group load_file safe_save save\n" in run.output and not run.life.errors


def test_without_the_probe_nothing_is(probed):
    run = probed(FORKED.format(start=""), probe=False)
    assert run.code == 0 and "OURS\nSAME True True\n" in run.output, run.output
