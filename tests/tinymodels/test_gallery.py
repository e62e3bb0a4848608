"""The gallery's catalogue: every broken trainer says what it does wrong, in words that chaoskit knows."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit.errors import CODES
from tinymodels.gallery.catalogue import CRASH_STATES, FOLDER, Mutant, mutants, read, sound

REPOSITORY = Path(__file__).resolve().parents[2]
EXPERIMENTS = {
    node.name
    for path in (REPOSITORY / "experiments").glob("test_*.py")
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
}
FAMILIES = {
    *("random numbers", "position in the data", "optimizer and schedule", "model and average", "counters"),
    *("publishing and keeping checkpoints", "corruption and loading", "elasticity and restarts"),
    *("not-a-number", "replicas", "preemption", "logs"),
}
STARS = {
    *("rng-missing", "sampler-epoch-zero", "accum-skip-units", "sched-ctor-clobber", "scaler-missing"),
    *("partial-dir-latest", "pointer-early", "retention-newest", "silent-scratch", "no-checksum"),
    *("nan-rotates-good", "sigterm-one-rank", "notice-one-rank"),
}
AT_LEAST = 90

GALLERY = mutants()
each = pytest.mark.parametrize("mutant", GALLERY, ids=lambda mutant: mutant.slug)

GOOD = '''"""loses-hope: it does something wrong.

Wrong: one line,
    and another one.
Evidence: HF#1 c, somebody/something.else#22 p
Codes: rng-not-restored
Also: loss-diverged model-not-restored
Caught by: test_resume test_twice[in-a-row] crash-states
Equivalent: test_x test_y (they cannot), test_z (nor can it)
Args: --text 'a file'
Good args: --text 'another'
Options: --timeout 60
Nodes: 1:2
Star: yes
Family: hope
"""
'''


@pytest.fixture
def written(tmp_path):
    """A trainer with a docstring in which something was replaced, or a line left out."""

    def write(old="", new="", *, name="loses_hope.py"):
        assert old in GOOD
        path = tmp_path / name
        path.write_text(GOOD.replace(old, new))
        return path

    return write


def test_a_docstring_is_read(written):
    assert read(written()) == Mutant(
        slug="loses-hope",
        module="tinymodels.gallery.loses_hope",
        title="it does something wrong.",
        wrong="one line, and another one.",
        evidence=("HF#1 c", "somebody/something.else#22 p"),
        codes=("rng-not-restored",),
        also=("loss-diverged", "model-not-restored"),
        caught_by=("test_resume", "test_twice[in-a-row]", "crash-states"),
        equivalent={"test_x": "they cannot", "test_y": "they cannot", "test_z": "nor can it"},
        args=("--text", "a file"),
        good_args=("--text", "another"),
        options=("--timeout", "60"),
        star=True,
        family="hope",
        missed="",
        nodes="1:2",
    )


def test_what_may_be_left_out(written):
    path = written()
    optional = ("Also", "Equivalent", "Args", "Good args", "Options", "Nodes", "Star")
    path.write_text("\n".join(line for line in GOOD.splitlines() if not line.startswith(optional)))
    mutant = read(path)
    assert (mutant.also, mutant.equivalent, mutant.args, mutant.options) == ((), {}, (), ())
    assert not mutant.star and mutant.nodes == "1"


def test_the_good_trainer_has_the_same_arguments_unless_others_are_given(written):
    mutant = read(written("Good args: --text 'another'\n"))
    assert mutant.good_args == mutant.args == ("--text", "a file")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("loses-hope: it", "It", "slug: the docstring must begin with"),
        ("loses-hope", "loses-faith", "slug: loses-faith does not belong to this file"),
        ("wrong.\n\n", "wrong\n\n", "slug: the docstring must begin with"),
        ("Wrong: one line,\n", "", "Wrong: it must be the first field"),
        ("Codes: rng-not-restored\n", "", "Codes: it is missing or empty"),
        ("rng-not-restored", "", "Codes: it is missing or empty"),
        ("loss-diverged model-not-restored", "", "Also: it is missing or empty"),
        ("Codes: ", "Code: ", "Code: there is no such field"),
        ("Star: yes", "Star: yes\nStar: yes", "Star: it is there twice"),
        ("Star: yes", "Star: no", "Star: it is 'yes' or left out"),
        ("HF#1 c", "HF#1", "Evidence: 'HF#1' is not a report"),
        ("HF#1 c", "XY#1 c", "Evidence: 'XY#1 c' is not a report"),
        (
            "test_resume test_twice[in-a-row] crash-states",
            "test_resume, twice",
            "Caught by: 'test_resume,' is none",
        ),
        ("rng-not-restored", "rng_not_restored", "Codes: 'rng_not_restored' is none"),
        (" (nor can it)", "", "Equivalent: it must read"),
        ("Nodes: 1:2", "Nodes: 2:1", "Nodes: '2:1' is neither 2 nor 1:2"),
        ("'a file'", "'a file", "Args: No closing quotation"),
    ],
)
def test_a_malformed_docstring_is_named(written, old, new, complaint):
    path = written(old, new)
    with pytest.raises(ValueError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: {complaint}")


def test_a_file_without_a_docstring_is_named(tmp_path):
    (tmp_path / "silent.py").write_text("import os\n")
    with pytest.raises(ValueError, match=r"silent\.py: Wrong: it is missing"):
        mutants(tmp_path)


def test_to_read_them_starts_no_torch():
    code = "import sys; from tinymodels.gallery.catalogue import mutants; mutants(); print('torch' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


@each
def test_its_words_are_known(mutant):
    assert set(mutant.codes) <= CODES.keys() and set(mutant.also) <= CODES.keys()
    assert not set(mutant.codes) & set(mutant.also)
    caught_by = {name.partition("[")[0] for name in mutant.caught_by}
    assert caught_by <= {*EXPERIMENTS, CRASH_STATES} and set(mutant.equivalent) <= EXPERIMENTS
    assert not set(mutant.caught_by) & set(mutant.equivalent)


@each
def test_it_is_short_and_can_be_run(mutant):
    lines = (FOLDER / f"{mutant.slug.replace('-', '_')}.py").read_text().splitlines()
    replaces = any(line.startswith("from tinymodels") for line in lines)
    assert 12 <= len(lines) <= (45 if replaces else 75)  # a script of its own has a loop, too
    assert lines[-2] == 'if __name__ == "__main__":' and lines[-1].startswith("    raise SystemExit(main(")


def test_there_are_enough():
    assert len(GALLERY) >= AT_LEAST
    assert len({mutant.slug for mutant in GALLERY}) == len(GALLERY)


def test_every_family_is_there():
    assert {mutant.family for mutant in GALLERY} == FAMILIES


def test_the_stars_are_there():
    assert {mutant.slug for mutant in GALLERY if mutant.star} == STARS


SOUND = sound()


@pytest.mark.parametrize("one", SOUND, ids=lambda one: one.slug)
def test_what_is_right_says_why_and_can_be_run(one):
    assert {name.partition("[")[0] for name in one.silent_in} <= EXPERIMENTS and one.right
    lines = (REPOSITORY / f"{one.module.replace('.', '/')}.py").read_text().splitlines()
    assert len(lines) <= 60 and lines[-2] == 'if __name__ == "__main__":'


def test_what_is_right_has_a_name_of_its_own():
    slugs = [one.slug for one in (*SOUND, *GALLERY)]
    assert SOUND and len({*slugs}) == len(slugs)
