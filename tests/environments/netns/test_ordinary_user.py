"""Nothing of a partition needs root: the experiment itself, for real, as an ordinary user."""

from __future__ import annotations

import os
import sys

import pytest

from chaoskit.engine.run_store import Store
from tests.users import IS_ROOT, NOBODY, REPOSITORY, home, must_have, refused, run_as_ordinary
from tests.warm_modes import teach

pytestmark = pytest.mark.slow


def test_an_ordinary_user_rehearses_a_partition(request):
    must_have(request, refused())
    with home() as place:
        teach(Store(place / "runs"))  # cold ranks start so far apart that one may not wait for the other
        if IS_ROOT:
            for path in place.rglob("*"):
                os.chown(path, NOBODY, NOBODY)
        told = [
            sys.executable, "-m", "pytest", str(REPOSITORY / "experiments" / "test_network_partition.py"),
            "-k", "shorter or longer", "--chaos-env", "netns", "--chaos-nodes", "2", "--chaos-dir", str(place / "runs"),
            "--chaos-require", "--chaos-launch", "warm", "-p", "no:cacheprovider",
        ]  # fmt: skip
        done = run_as_ordinary(told, place, timeout=900)
        assert done.returncode == 0, done.stdout
        assert "(2 experiments: 2 passed)" in done.stdout and "launched warm" in done.stdout, done.stdout
        owners = {path.lstat().st_uid for path in place.rglob("*")}
        assert len(list(place.glob("runs/runs/*/run.json"))) == 2
    assert owners == {NOBODY if IS_ROOT else os.getuid()}
