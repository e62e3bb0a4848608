"""Which module may do what to a cluster."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from chaoskit.environments import kubernetes as room
from chaoskit.environments.registry import environments

PLACE = Path(room.__file__).parent
#: By request, the only modules that send it. `resourcequotas` are settings of a namespace, no objects of anybody.
SENDERS = {
    "create": {"objects", "dry_run"},
    "delete": {"removal"},
    "evict": {"removal"},
    "patch": {"removal"},
    "page": {"listing", "cluster_about"},
    "watch": {"watching"},
    "ask": {"permissions"},
    "request": {"connection"},
}


def test_each_request_is_sent_by_one_module():
    senders = defaultdict(set)
    for path in sorted(PLACE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of = ast.unparse(node.func.value)
                if of.endswith(("connection", "_client")) and node.func.attr in SENDERS:
                    senders[node.func.attr].add(path.stem)
    assert senders == SENDERS


def test_a_dry_run_makes_nothing():
    calls = [
        node
        for node in ast.walk(ast.parse((PLACE / "dry_run.py").read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".create")
    ]
    assert len(calls) == 1
    assert {word.arg: ast.unparse(word.value) for word in calls[0].keywords} == {"dry_run": "True"}


def test_the_environment_is_there():
    assert environments()["kubernetes"].traits.nodes_most > 1


def test_selectors_are_written_by_one_module():
    """Whatever a fault hits is chosen by a `RunSelector`."""
    words = ("labelSelectors", "podPhaseSelectors", "expressionSelectors", "labelSelector")
    found = defaultdict(set)
    for path in sorted(PLACE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Dict):
                for key in node.keys:
                    if isinstance(key, ast.Constant) and key.value in words:
                        found[key.value].add(path.stem)
    assert found == {
        "labelSelectors": {"selectors"},
        "podPhaseSelectors": {"selectors"},
        "labelSelector": {"listing", "watching", "selectors"},
    }


def test_the_room_is_imported_without_the_client():
    parts = [path.relative_to(PLACE).with_suffix("").parts for path in sorted(PLACE.rglob("*.py"))]
    names = [".".join([room.__name__, *part]) for part in parts]
    script = (
        f"import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\n"
        "print(sorted({'kubernetes', 'yaml', 'urllib3', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
