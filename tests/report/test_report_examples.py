"""docs/reference/report-examples.md quotes what pages say: of the same mistakes, written by hand, they say the same."""

import re
from pathlib import Path

import pytest

from chaoskit import checks
from chaoskit.checks import judge
from chaoskit.errors import CODES
from chaoskit.protocol.fingerprint import of_bytes
from chaoskit.report.headline import headline
from tests.checks.corrupted_runs import off, wrong_losses
from tests.history_writer import Writer

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "report-examples.md"
#: What the bundled trainer has.
NAMES = ("model", "buffers", "optimizer", "options", "lr", "ema", "rng.torch", "rng.python", "rng.numpy", "batch")
CLAIMS = (
    checks.completed(), checks.resumed_from_last_valid(), checks.state_restored(), checks.same_data(),
    checks.checkpoints_faithful(), checks.matches_reference(),
)  # fmt: skip
STRUCK = (checks.detected_within(steps=1), checks.no_poisoned_checkpoint())


def samples(rank, position):
    """Epochs of 20 steps, each with all samples in an order of its own."""
    epoch, at = divmod(position, 20)
    return [of_bytes(f"{(at * 7 * (epoch + 1) + rank + 11 * epoch) % 40}".encode())[:16]]


def writer():
    content = {"content": lambda rank, position: {"x": f"{rank}.{position}"}}
    return Writer(every=10, names=NAMES, samples=samples, epochs=(0, 20, 40), **content)


def resumed(*, flipped=False, **options):
    """Killed after step 35, it goes on from 30."""
    run = writer().launch().live(until=35, epochs=(0, 20)).fault("kill the last rank at step 36").died()
    if flipped:
        run.fault("flip a bit", evidence={"file": "x", "save": {"launch": 0, "restart": 0, "n": 30}})
    return run.launch().live(base=30, epochs=(10,), ends=True, **options).exit(0).end()


def poisoned():
    """A gradient becomes not-a-number in step 32, and all that follows from it is trained on."""
    run = writer().launch()
    wrong = {"patch": off(33), "losses": wrong_losses(33, loss="nan")}
    return (
        run.live(strike={32: {}}, epochs=(0, 20, 40), ends=True, **wrong).save(60, nonfinite=["x"]).exit(0).end()
    )


#: What each trainer has forgotten.
FORGOTTEN = {
    "": resumed,
    "rng-missing": lambda: resumed(off={"rng.torch": 0}),
    "sampler-epoch-zero": lambda: resumed(off={"batch": 10}),
    "optim-not-saved": lambda: resumed(off={"optimizer": 0, "lr": 0}),
    "no-checksum": lambda: resumed(off={"optimizer": "odd"}, drift=False, flipped=True),
    "nan-loss-only": poisoned,
}


def quotes():
    found = {}
    for section in PAGE.read_text().split("\n## ")[1:]:
        name, _, text = section.partition("\n")
        lines = re.findall(r"^>(.*)$", text, re.M)
        sentence, *meanings = (" ".join(part.split()) for part in "\n".join(lines).split("\n\n"))
        found[name.strip("`") if name.startswith("`") else ""] = (sentence, meanings)
    return found


def words(sentence):
    """Without its numbers, and the name of a tensor. Samples whose numbers are known, as in a real run, are rows."""
    sentence = re.sub(r"[\w.]+\[[\d, ]+\]", "a tensor", sentence.partition("; first wrong loss")[0])
    return re.sub(r"-?\d+(\.\d+)?", "N", sentence).replace(" samples ", " rows ")


@pytest.mark.parametrize("slug", FORGOTTEN)
def test_the_sentence_is_the_pages(slug):
    case = FORGOTTEN[slug]().case()
    said = headline(case, judge(case, STRUCK if slug == "nan-loss-only" else CLAIMS))
    sentence, meanings = quotes()[slug]
    assert words(said.sentence) == words(sentence)
    assert [f"`{code}`: {CODES[code]}" for code in said.codes] == meanings


def test_another_mistake_has_another_sentence():
    assert len({words(sentence) for sentence, _ in quotes().values()}) == len(FORGOTTEN) == len(quotes())


def test_the_pictures_are_small():
    images = [PAGE.parent / name for name in re.findall(r"\]\((\.\./images/.+?)\)", PAGE.read_text())]
    assert len(images) == len(FORGOTTEN) and all(image.stat().st_size <= 200_000 for image in images)
