"""Which differences between a parent and a process of the job count, and which do not."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.environments.launch.surroundings import IDLE, LATE, PROBE_SITE, differences, digest, early, limits

HERE = "/some/where"
names = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", min_size=1, max_size=8) | st.sampled_from(
    ["PATH", "PYTHONPATH", "PYTHONHASHSEED", "LD_PRELOAD", "OMP_NUM_THREADS", "LC_ALL", "LC_TIME", *LATE, *IDLE]
)
environments = st.dictionaries(names, st.text("ab/:.", max_size=6), max_size=6)


def test_relative_entries_of_the_path_are_meant_from_where_the_command_starts():
    env = {"PYTHONPATH": f"src:/abs::{PROBE_SITE}:../up:", "A": "b"}
    kept = early(env, HERE)
    assert kept == {"PYTHONPATH": f"{HERE}/src:/abs:{HERE}:{HERE}/../up:{HERE}", "A": "b"}
    assert early(kept, "/") == kept


def test_a_directory_is_where_it_lies_not_how_it_is_called(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    assert early({"PYTHONPATH": "src"}, str(tmp_path / "link")) == {"PYTHONPATH": str(tmp_path / "src")}


@pytest.mark.parametrize("path", ["", PROBE_SITE])
def test_no_path_is_left_of_the_probes_own(path):
    assert early({"PYTHONPATH": path}, HERE) == {}


@pytest.mark.parametrize(
    "name",
    [
        "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
        "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT",
        "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "PET_TEE",
        "CHAOSKIT_RUN", "CHAOSKIT_ID", "TMPDIR", "CUDA_VISIBLE_DEVICES", "PWD", "TERM", "PYTEST_CURRENT_TEST",
    ],
)  # fmt: skip
def test_what_torchrun_and_a_shell_add_does_not_count(name):
    assert differences({name: "1"}, {}, HERE) == []
    assert name not in early({name: "1"}, HERE)


@pytest.mark.parametrize(
    "name",
    [
        "OMP_NUM_THREADS", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHASHSEED", "PYTHONPATH", "PYTHONOPTIMIZE", "HOME",
        "LANG", "LC_ALL", "LC_CTYPE", "MKL_NUM_THREADS", "TORCH_LOGS", "HF_HOME", "XDG_CACHE_HOME", "ANYTHING_ELSE",
    ],
)  # fmt: skip
def test_what_is_read_at_the_start_or_at_an_import_counts(name):
    assert differences({name: "1"}, {}, HERE) == [name]
    assert differences({name: "1"}, {name: "2"}, HERE) == [name]
    assert differences({name: "1"}, {name: "1"}, HERE) == []


@given(environments, environments)
def test_differences_are_symmetric(one, two):
    assert differences(one, two, HERE) == differences(two, one, HERE)
    assert differences(one, one, HERE) == []


@given(environments, st.sampled_from(LATE), st.text("A_", max_size=3), st.text(max_size=3))
def test_what_comes_late_changes_nothing(env, name, rest, value):
    assert differences({**env, name + rest: value}, env, HERE) == []


@given(environments, environments)
def test_what_a_parent_is_started_with_is_all_that_counts(one, two):
    assert differences(early(one, HERE), one, HERE) == []
    assert (differences(one, two, HERE) == []) == (early(one, HERE) == early(two, HERE))


def test_limits_tell_whatever_a_process_hands_on():
    changes = {
        "umask": "os.umask(0o777)",
        "cores": "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})",
        "priority": "os.nice(1)",
        "files": "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))",
        "core dumps": "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
        "out of memory": "open('/proc/self/oom_score_adj', 'w').write('500')",
    }
    if len(os.sched_getaffinity(0)) == 1:
        del changes["cores"]
    if resource.getrlimit(resource.RLIMIT_CORE) == (0, 0):
        del changes["core dumps"]
    code = "import os, resource; from chaoskit.environments.launch.surroundings import *; {}; print(digest(limits()))"
    told = {
        name: subprocess.run(
            [sys.executable, "-c", code.format(change)], capture_output=True, text=True, check=True
        )
        for name, change in {"nothing": "pass", **changes}.items()
    }
    assert told["nothing"].stdout.strip() == digest(limits())
    assert len({each.stdout for each in told.values()}) == len(told)


def test_a_digest_is_short_and_tells_parts_apart():
    assert digest("a", {"b": 1, "c": 2}) == digest("a", {"c": 2, "b": 1})
    assert len({digest("a", "b"), digest("ab"), digest(["a", "b"]), digest("b", "a")}) == 4
    assert digest("a").isalnum() and len(digest("a")) == 32
