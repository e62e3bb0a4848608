"""The wording of the terminal is that of tests/golden; `python -m tests.golden.outputs` renews it after a change."""

import pytest

from tests.golden.outputs import HERE, OUTPUTS, stripped


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_sentences_are_those_on_file(name):
    said, known = stripped(OUTPUTS[name]()), (HERE / name).read_text()
    if name == "help.txt":  # each version of argparse breaks lines elsewhere
        said, known = said.split(), known.split()
    assert said == known, "run 'python -m tests.golden.outputs', and read the difference before you commit it"
