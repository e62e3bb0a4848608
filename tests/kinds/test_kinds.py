"""The experiments that do not apply to every job, on a flawless job of each kind: each passes, or is skipped.

The table says which are skipped, and why; nothing is inconclusive, and the exit code is 0.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.users import REPOSITORY

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
ALONE, TWO = [*TORCHRUN, "--nproc-per-node", "1"], [*TORCHRUN, "--nproc-per-node", "2"]
#: No epochs, no pointer, no scheduler, no manifest: files in `{out}` itself.
FLAT = [str(Path(__file__).with_name("trainer.py")), "{out}"]
BUNDLED = ["-m", "tinymodels.train", "--out", "{out}", "--samples", "192", "--save-every", "4"]

NO_POINTER = {"test_pointer": "keeps no pointer"}
NO_MANIFEST = {"test_misleading[damage_manifest]": "no file of the checkpoint is text"}
NO_EPOCHS = {"test_epoch_boundary": "one epoch only"}
ONE_RANK = {
    "test_last_writer": "one rank alone writes",
    "test_before_first_collective": "only one rank",
    "test_rank_exits_0": "only one rank",
    "test_replicas_agree": "only one rank",
}
SHARDED, STAGES = {"test_replicas_agree": "shards its model"}, {"test_replicas_agree": "a part of the model"}
IN_FLAT_FILES = {**NO_POINTER, **NO_MANIFEST, **NO_EPOCHS}

#: By kind of job: its command, and which experiments do not apply to it, with a part of the reason.
KINDS = {
    "plain python": ([sys.executable, *FLAT], {**IN_FLAT_FILES, **ONE_RANK}),
    "plain python with a process group": ([sys.executable, *BUNDLED], {**NO_POINTER, **ONE_RANK}),
    "torchrun, one process": ([*ALONE, *FLAT], {**IN_FLAT_FILES, **ONE_RANK}),
    "DDP": ([*TWO, *BUNDLED], NO_POINTER),
    "DDP in flat files": ([*TWO, *FLAT, "--parallel", "ddp"], IN_FLAT_FILES),
    "DDP, --max-restarts": ([*TWO, "--max-restarts", "3", *FLAT, "--parallel", "ddp"], IN_FLAT_FILES),
    "FSDP2": ([*TWO, *BUNDLED, "--parallel", "fsdp"], {**NO_POINTER, **SHARDED}),
    "tensor parallel": ([*TWO, *FLAT, "--parallel", "tensor"], {**IN_FLAT_FILES, **SHARDED}),
    "pipeline": ([*TWO, *FLAT, "--parallel", "pipeline"], {**IN_FLAT_FILES, **STAGES}),
}

#: What some kind of job skips.
NOT_ALWAYS = {name for _, skipped in KINDS.values() for name in skipped}
#: Kinds to which all of these experiments are done in CI. To one more CI does those that it skips, and a resume; the
#: rest is done each night.
WHOLE, PART = ("DDP, --max-restarts", "pipeline"), ("plain python with a process group",)


def trials():
    """Each kind with the experiments to select."""
    for kind, (_, skipped) in KINDS.items():
        for chosen in (NOT_ALWAYS,) if kind in WHOLE else (skipped, NOT_ALWAYS):
            expression = " or ".join(["test_resume", *sorted({name.partition("[")[0] for name in chosen})])
            whole = chosen is NOT_ALWAYS and kind not in WHOLE
            nightly = whole or kind not in (*WHOLE, *PART)
            name = f"{kind}, all" if whole else kind
            yield pytest.param(kind, expression, id=name, marks=[pytest.mark.slow, pytest.mark.exhaustive][nightly])


@pytest.mark.parametrize(("kind", "selected"), list(trials()))
def test_a_flawless_job_of_each_kind_passes_what_applies_to_it(shared_store, tmp_path, monkeypatch, kind, selected):
    command, not_applicable = KINDS[kind]
    # Without it, torch 2.13 gives restarted ranks the addresses of those before them.
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    answer = tmp_path / "answer.json"
    options = ["--launch", "warm", "-n", "0", "--dir", str(shared_store.root), "--json", str(answer), "-k", selected]
    done = subprocess.run(
        [sys.executable, "-m", "chaoskit", "run", *options, "--", *command],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    found = {each["name"]: each for each in json.loads(answer.read_text())["experiments"]}
    skipped = {name: each["sentences"][0] for name, each in found.items() if each["verdict"] == "skipped"}
    others = {name: each["verdict"] for name, each in found.items() if name not in skipped}
    assert set(others.values()) == {"pass"}, said
    assert skipped.keys() == not_applicable.keys(), skipped
    assert all(not_applicable[name] in why for name, why in skipped.items()), skipped
    assert done.returncode == 0, said
