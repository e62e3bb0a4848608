"""The map for people: tables that fit a terminal, sentences, a picture that is well-formed, and what JSON says."""

import io
import json
import xml.etree.ElementTree as ET

import pytest
from rich.console import Console

from chaoskit.errors import UsageError
from chaoskit.report.machine import json_report
from chaoskit.report.svg import sdc_picture
from chaoskit.report.terminal import sdc_report
from chaoskit.studies.sdc.changes import CHANGES
from chaoskit.studies.sdc.map import SdcMap, Share
from chaoskit.studies.sdc.plan import TrialResult
from chaoskit.studies.sdc.trace import CorruptionOutcome
from tests.sdc_runs import EFFECT, injection

PLACES = ("parameter:*", "gradient:*:reduced", "collective:all_reduce:1")


def result(number, place, change, becomes, **told):
    outcome = CorruptionOutcome(
        becomes, "the loss of step 14 is nan" if becomes == "detected" else "a loss was off", **told
    )
    return TrialResult(injection(number, opens=13, place=place, change=change), EFFECT, outcome, alone=number == 1)


def the_map(**told):
    results = (
        result(1, PLACES[0], "nan", "detected", step=14, over=True),
        result(2, PLACES[0], "sign", "silent", worst=0.2),
        result(3, PLACES[0], "exponent high", "silent", worst=float("inf")),
        result(4, PLACES[1], "sign", "gone"),
        result(6, PLACES[1], "zero", "faded", worst=1e-6),
    )
    fields = {
        "run": "/somewhere/runs/1", "seed": 3, "window": 10, "tolerance": 1e-4, "steps": (2, 14), "places": PLACES,
        "results": results, "refused": ((injection(5), "nothing there"),),
        "closed": {PLACES[2]: "the step made no all_reduce"}, "launches": 3, "controls": 2, "repeated": 1, "apart": "",
        "seconds": 12.3,
    }  # fmt: skip
    return SdcMap(**{**fields, **told})


def shown(one, width=80):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    sdc_report.show(one, console)
    return console.file.getvalue()


def test_shares_are_counted_by_place_change_and_step():
    one = the_map()
    assert one.by_place()[PLACES[0]]["silent"] == Share(2, 3)
    assert one.by_change()["sign"]["gone"] == Share(1, 2)
    assert one.by_step()[14]["detected"] == Share(1, 5) and one.by_step()[2]["detected"] == Share(0, 0)
    assert one.cell(PLACES[1], "zero")["faded"] == Share(1, 1)
    assert one.whole == 6 and one.shared == 4
    assert the_map(results=one.results[1:]).whole == 0


def test_the_report_says_what_came_of_it_and_what_stands_behind_it():
    told = shown(the_map())
    assert "67% 21-94" in told  # two of three parameters were silent
    assert "the worst silent corruptions" in told
    first, second = (line for line in told.splitlines() if line.startswith("  step 14"))
    assert "exponent high in parameter" in first and "sign in parameter" in second
    assert "1 -> 2" in first
    assert "2 controls were bitwise equal, and 1 corruptions, repeated" in told.replace("\n", " ")
    assert "collective:all_reduce was not tested further: the step made no all_reduce" in told
    assert told.splitlines()[-1] == ("5 corruptions in 12 s: 1 detected, 1 gone (bitwise), 1 faded, 2 silent")
    tables = told.partition("the worst")[0]
    assert all(len(line) <= 80 for line in tables.splitlines())


def test_why_none_shared_a_launch_is_said():
    told = shown(the_map(apart="a control was off"))
    assert (
        "each corruption ran in its own launch, because a control was off" in told
        and "controls were bitwise equal" not in told
    )


def test_nothing_seen_is_no_row():
    assert "step 2" not in shown(the_map())


def test_json_has_every_corruption_and_no_number_that_json_has_not():
    told = json.loads(json.dumps(the_map().to_json(), allow_nan=False))
    assert told["schema"] == 1 and told["injections"] == 5
    assert told["outcomes"]["silent"] == {"hits": 2, "share": 0.4, "low": 0.1176, "high": 0.7693}
    assert told["places"][PLACES[0]]["of"] == 3
    assert [one["becomes"] for one in told["corruptions"]] == ["detected", "silent", "silent", "gone", "faded"]
    assert told["corruptions"][2]["worst"] is None and told["corruptions"][0]["noticed_at"] == 14


def test_the_picture_is_svg_with_a_cell_for_each_place_and_change():
    one = the_map()
    root = ET.fromstring(sdc_picture.svg(one))
    assert root.tag.endswith("svg")
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {*CHANGES, "parameter", "gradient:reduced"} <= set(texts) and "1/1 (21-100 %)" in texts
    assert "collective:all_reduce" not in texts  # nothing was tried there
    titles = [each.text for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "silent: 1 of 1 (21-100 %)" in titles


def test_cells_of_too_few_corruptions_are_hatched():
    assert [Share(hits, of).vague for hits, of in ((0, 1), (1, 1), (3, 3), (2, 4), (0, 4), (4, 4), (3, 12))] == [
        True, True, True, True, False, False, False,
    ]  # fmt: skip
    assert sdc_picture.svg(the_map()).count('"url(#vague)"') == 5
    many = tuple(result(n, PLACES[0], "sign", "silent", worst=0.2) for n in range(1, 21))
    assert '"url(#vague)"' not in sdc_picture.svg(the_map(results=many))


def test_the_picture_is_light_or_dark_as_the_reader_wishes():
    text = sdc_picture.svg(the_map())
    assert "@media (prefers-color-scheme:dark)" in text
    root = ET.fromstring(text)
    fills = {each.get("fill") for each in root.iter("{http://www.w3.org/2000/svg}rect")} - {None}
    assert fills == {"url(#vague)"}, "colours are those of the style"


def test_a_picture_that_cannot_be_written(tmp_path):
    with pytest.raises(UsageError, match="--picture"):
        json_report.check_target(str(tmp_path / "no" / "map.svg"), option="--picture")
    with pytest.raises(UsageError, match="is a directory"):
        json_report.check_target(str(tmp_path), option="--picture")
    json_report.write_text(sdc_picture.svg(the_map()), str(tmp_path / "map.svg"))
    assert ET.parse(tmp_path / "map.svg")
