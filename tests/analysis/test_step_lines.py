"""Step lines that are read straight into columns tell what the same lines tell as events, whatever is in them."""

import json
import random
import re
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.analysis.record import step_lines
from chaoskit.analysis.record.history import History
from chaoskit.analysis.record.step_lines import read_record
from chaoskit.analysis.record.steps import Steps
from chaoskit.protocol.events import read_events
from chaoskit.protocol.fingerprint import of_bytes

START = {"e": "process.start", "role": "rank", "rank": 0, "world": 1, "launch": 0, "restart": 0, "pid": 7}
#: Values that stand in JSON but not in a usual step, or not as written here.
ODD_VALUES = [
    '"x"', '""', '"\\u0061"', '"a\\"b"', '"a\\nb"', '"\\ud800"', '"é"', '"\x7f"', "null", "true", "[]", "{}", '["x"]',
    '["a b"]',
    '["a\\"b"]', '["",""]', '[["a"]]', '["a",1]', '["a""b"]', '["a",]', "0", "-1", "-0.0", "1.0", "01", "1e3",
    "1e-05", "1e999", "-1e-400", "NaN", "Infinity", "123456789012345678901234567890", "2147483648", "1_0", "+1", " 1",
    '{"model":"x"}', '{"model":"a","model":"b"}', '{"model":1}', '"0x1.8p+0"', f'"{"0" * 32}"', f'"{"F" * 32}"',
    f'"{"f" * 31}\\"', f'["{"a" * 16}","{"b" * 16}"]', f'["{"0" * 16}"]', f'["{"a" * 15}","{"b" * 17}"]', '"1  2"',
    '"1 02"', '"4294967295"', '"٣"', "", '"', "\x00", "\\",
]  # fmt: skip


def step(n, draw, **changed):
    """The fields of a step as the probe writes them."""
    told = {
        "e": "step", "n": n, "losses": [draw.random().hex()] * draw.choice([1, 2]),
        "state": {name: of_bytes(f"{name} {n}".encode()) for name in ("model", "rng.torch")} | {"lr": (n / 7).hex()},
        "own": round(draw.random(), 6), "samples": [of_bytes(b"%d %d" % (n, at))[:16] for at in range(3)],
        "rows": f"{n} {n + 1} 0",
    }  # fmt: skip
    return {**told, **changed}


def lines_of(told):
    return [
        json.dumps({"i": i, "t": 100.25 + i / 7, **fields}, separators=(",", ":")).encode() + b"\n"
        for i, fields in enumerate(told)
    ]


@st.composite
def records(draw):
    """Records of one rank: usual steps, unusual ones, other events, damage."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    told = [dict(START)]
    for n in range(1, draw(st.integers(2, 24))):
        kind = draw(
            st.sampled_from(
                ["step"] * 9 + ["first", "thin", "nonfinite", "loaded", "epoch", "halt", "short", "late"]
            )
        )
        told += {
            "step": [step(n, chance)],
            "first": [{name: value for name, value in step(n, chance).items() if name not in ("own", "rows")}],
            "thin": [step(n, chance, state={"lr": (n / 7).hex()}, thin=chance.random() < 0.9)],
            "nonfinite": [step(n, chance, nonfinite=chance.choice([[], ["model"]]))],
            "loaded": [step(n, chance, loaded=True)],
            "epoch": [{"e": "epoch", "n": n}, step(n, chance, losses=[])],
            "halt": [step(n, chance, e="halt")],
            "short": [step(n, chance, samples=["ab" * 8], rows="3")],
            "late": [step(n, chance), step(n, chance, e="late")] if chance.random() < 0.2 else [step(n, chance)],
        }[kind]
    lines = lines_of(told)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        lines[at] = draw(damaged(lines[at]))
    return b"".join(lines)


@st.composite
def damaged(draw, line):
    """A line with another value, other bytes, or in another place."""
    way = draw(st.sampled_from(["value", "bytes", "cut", "gone", "twice", "blank", "field", "space", "without"]))
    at = draw(st.integers(0, max(0, len(line) - 2)))
    if way == "value":
        where = [i for i in range(len(line)) if line[i : i + 1] in b":["]
        start = draw(st.sampled_from(where)) + 1 if where else 0
        end = next((i for i in range(start, len(line)) if line[i : i + 1] in b",]}"), start)
        return line[:start] + draw(st.sampled_from(ODD_VALUES)).encode() + line[end:]
    if way == "bytes":
        return line[:at] + draw(st.binary(min_size=1, max_size=3)) + line[at + draw(st.integers(0, 3)) :]
    if way == "field":
        return (
            line[:-2] + b"," + draw(st.sampled_from([b'"n":5', b'"own":null', b'"x":[1]', b'"rows":"9"'])) + b"}\n"
        )
    if way == "without":
        return re.sub(rb'"(i|t|e|n|state|own|rows)":("[^"]*"|[0-9.]+),?', b"", line, count=draw(st.integers(1, 3)))
    if way == "space":
        return line.replace(b",", b", ", 1)
    return {"cut": line[:at], "gone": b"", "twice": line + line, "blank": b"\n" + line}[way]


def plain(value):
    """A part of a history as it can be compared."""
    if isinstance(value, Steps):
        found = {each.name: getattr(value, each.name) for each in fields(value)}
        found["own"] = [own if own >= 0 else -1.0 for own in value.own]
        return {name: plain(one) for name, one in found.items()}
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple) or (hasattr(value, "__iter__") and not isinstance(value, str)):
        return [plain(one) for one in value]
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    return value


def both(path, content, monkeypatch=None):
    """The history of one file, and that of its events."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return History.read(path.parent.parent), History.of(read_events(path))


@settings(max_examples=400, deadline=None)
@given(content=records(), piece=st.sampled_from([1, 700, 3000, 1 << 20]))
def test_both_ways_tell_the_same(tmp_path_factory, content, piece):
    path = tmp_path_factory.mktemp("run") / "events" / "rank-0-0-0-7.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_lines, "LEAST", 0)
        patch.setattr(step_lines, "PIECE", piece)
        fast, slow = both(path, content)
    assert plain(fast) == plain(slow)
    assert [(gap.line, gap.why) for gap in fast.gaps] == [(gap.line, gap.why) for gap in slow.gaps]


def usual(count, **changed):
    chance = random.Random(1)
    return lines_of([START, *(step(n, chance, **changed) for n in range(1, count + 1))])


def test_no_event_is_made_of_usual_steps(tmp_path):
    path = tmp_path / "rank-0-0-0-7.jsonl"
    lines = usual(500)
    path.write_bytes(b"".join(lines))
    start, *rest = read_record(path)
    assert start.kind == "process.start" and all(isinstance(one, Steps) for one in rest)
    assert sum(map(len, rest)) == 500


def test_lines_without_a_number_are_gaps(tmp_path):
    lines = [line.replace(b'"i":%d,' % i, b"") for i, line in enumerate(usual(300))]
    fast, slow = both(tmp_path / "events" / "rank-0-0-0-7.jsonl", b"".join(lines))
    assert len(fast.gaps) == 301 and plain(fast) == plain(slow) and not fast.incarnations


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b'["0x', b'["0x1p+0""0x', "it is no JSON"),
        (b'"rows":"25', b'"rows":"2\\5', "it is no JSON"),
        (b'"rows":"25', b'"rows":"2\x015', "it is no JSON"),
        (b'"rows":"25', b'"rows":"2\xff5', "it is no JSON"),
        (b'"n":250', b'"n":025', "it is no JSON"),
        (b'"n":250', b'"n":25.0', "n must be a whole number, not 25.0"),
        (b'"n":250', b'"n":9999999999', "n must be a number from 0 to 2.14748e+09, not 9999999999"),
        (b'"own":', b'"own":1e99,"was":', "own must be a finite number or null, not 1e+99"),
        (b'"state":{', b'"state":{"more":1,', "state.more must be a text, not 1"),
    ],
)
def test_a_damaged_line_among_usual_ones_is_a_gap(tmp_path, old, new, why):
    lines = usual(500)
    assert old in lines[250]
    lines[250] = lines[250].replace(old, new, 1)
    fast, slow = both(tmp_path / "events" / "rank-0-0-0-7.jsonl", b"".join(lines))
    # The line after the damaged one is found not to follow on the one before.
    assert [(gap.line, gap.why) for gap in fast.gaps] == [(251, why), (252, "")]
    assert plain(fast) == plain(slow) and len(fast.incarnations[0].ranks[0].steps) == 499
