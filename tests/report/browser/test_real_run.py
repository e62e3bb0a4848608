"""The page of a run that took place: a trainer that forgets its random numbers is killed, and resumes."""

import json
import subprocess
import sys

import pytest

from chaoskit.engine.runner import stored
from chaoskit.report.html import page, run_page
from tests.users import REPOSITORY

pytestmark = pytest.mark.slow


@pytest.fixture
def run(shared_store, tmp_path):
    words = ["-k", "one_rank_mid_epoch", "--dir", str(shared_store.root), "--json", str(tmp_path / "answer.json")]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    job = [*torchrun, "-m", "tinymodels.gallery.rng_missing", "--out", "{out}"]
    command = [sys.executable, "-m", "chaoskit", "run", "--launch", "warm", *words, "--", *job]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    (told,) = json.loads((tmp_path / "answer.json").read_text())["experiments"]
    return stored(shared_store.resolve(told["run"]), shared_store)


def test_its_page_says_what_was_forgotten(run, look, tmp_path):
    target = tmp_path / "run.html"
    page.write(run_page.render(run), target)
    window = look(target)
    assert "RNG not restored" in window.locator(".sentence").first.inner_text()
    assert window.locator("h1 .code").all_inner_texts() == ["rng-not-restored"]
    assert window.locator("#alignment td.wrong").count() >= 1
    assert window.locator("svg.losses .fault-window").count() == 1
    arrow = window.locator("svg.losses .resumed-arrow")
    assert (arrow.get_attribute("data-from"), arrow.get_attribute("data-to")) == ("35", "30")
    assert window.locator('svg.losses .checkpoint.resumed[data-position="30"]').count() == 1
    assert target.stat().st_size < 500_000
