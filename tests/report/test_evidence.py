"""Evidence is shown as what it is, and cut where nobody would read on."""

from hypothesis import given
from hypothesis import strategies as st

from chaoskit.report.evidence import LETTERS, LINES, ROWS, bounded, pieces

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=60) | st.dictionaries(st.text(), inner, max_size=60),
    max_leaves=120,
)


def one(value):
    (found,) = pieces({"name": value})
    return found


def test_a_list_of_rows_is_a_table():
    found = one([{"rank": 0, "steps": [1, 2]}, {"rank": 1, "why": None}])
    assert found.columns == ["rank", "steps", "why"]
    assert found.rows == [["0", "1, 2", ""], ["1", "", "–"]]


def test_what_is_short_stands_in_a_line():
    assert (one(60).text, one(60).short) == ("60", True)
    assert one(["model", "lr"]).text == "model, lr"
    assert one({"0": 60, "1": 60}).text == '{"0": 60, "1": 60}'


def test_what_is_long_is_cut_and_says_by_how_much():
    found = one([{"n": n} for n in range(ROWS + 7)])
    assert len(found.rows) == ROWS and found.cut == "7 more rows"
    assert "… 960 more" in one(list(range(1000))).text
    found = one({str(n): [n] for n in range(50)})
    assert found.cut.endswith("more lines") and len(found.text.splitlines()) == LINES
    assert bounded({str(n): n for n in range(50)})["…"] == "10 more"
    found = one("x" * 5 * LETTERS)
    assert len(found.text) < 5 * LETTERS and "more characters" in found.cut
    assert one("x\n" * (LINES + 5)).cut == "5 more lines"


def test_what_is_empty_or_shown_elsewhere_is_left_out():
    assert not list(pieces({"table": [{"a": 1}], "files": [], "why": ""}, without=("table",)))


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_whatever_it_is_it_is_bounded(evidence):
    for found in pieces(evidence):
        assert len(found.text) <= 4 * LETTERS and len(found.rows) <= ROWS
        assert all(len(cell) <= 300 * 8 for row in found.rows for cell in row)
