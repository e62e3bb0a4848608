"""What the ranks are told about state that is kept or put back: read as it was written, and refused otherwise."""

import json

import pytest

from chaoskit.protocol import putting_back
from chaoskit.protocol.putting_back import NAME, Keep, PutBack, Resumed

KEEP = Keep("/kept", (10, 20), ("rng", "lr"))
PUT = PutBack(
    "/kept",
    (Resumed(1, 0, 10, {0: ("rng.torch",), 1: ("lr", "batch")}),),
    {"rates-rank-1.jsonl": "ab"},
    "load",
    "flow",
)


@pytest.mark.parametrize("order", [KEEP, PUT])
def test_an_order_is_read_as_it_was_written(order, tmp_path):
    assert putting_back.read(tmp_path) is None
    putting_back.write(order, tmp_path)
    assert putting_back.read(tmp_path) == order


def test_an_incarnation_finds_its_own_part():
    assert PUT.of(1, 0) == PUT.resumed[0]
    assert PUT.of(0, 0) is None and PUT.of(1, 1) is None


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"directory": "kept"},
        {"directory": None},
        {"put_back": None},
        {"put_back": {"moment": "later"}},
        {"put_back": {"way": "back"}},
        {"put_back": {"digests": {"../../etc/passwd": "ab"}}},
        {"put_back": {"digests": {"a": 1}}},
        {"put_back": {"resumed": []}},
        {"put_back": {"resumed": [{"launch": 1, "restart": 0, "position": 0, "ranks": {}}]}},
        {"put_back": {"resumed": [{"launch": True, "restart": 0, "position": 1, "ranks": {}}]}},
        {"put_back": {"resumed": [{"launch": 1, "restart": 0, "position": 1, "ranks": {"0": "rng"}}]}},
        {"put_back": {"resumed": [{"launch": 1, "restart": 0, "position": 1, "ranks": {"0": ["kernel"]}}]}},
        {"keep": {"positions": [], "components": ["rng"]}},
        {"keep": {"positions": [0], "components": ["rng"]}},
        {"keep": {"positions": [5], "components": ["rng."]}},
    ],
    ids=str,
)
def test_anything_else_is_refused(change, tmp_path):
    putting_back.write(PUT, tmp_path)
    content = json.loads((tmp_path / NAME).read_text())
    for name, value in change.items():
        content[name] = {**content[name], **value} if isinstance(value, dict) and name in content else value
    (tmp_path / NAME).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=NAME):
        putting_back.read(tmp_path)


def test_a_file_that_is_no_json_is_refused(tmp_path):
    (tmp_path / NAME).write_text("{")
    with pytest.raises(ValueError, match=NAME):
        putting_back.read(tmp_path)
