"""What the page of a run says about trainers that are broken on purpose, and how it looks: `docs/report-examples.md`.

    python benchmarks/screenshots.py                        # six real runs, some minutes
    python benchmarks/screenshots.py --store DIR            # draw again those that are kept there, run what is missing

Each of five trainers of the gallery, and the good one, goes through an experiment as its user would run it. The page is
opened in Chromium; its top becomes a picture in `docs/images/`, and its words are quoted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from gallery import GOOD, Sitting  # noqa: E402
from playwright.sync_api import Browser  # noqa: E402

from chaoskit.report import page, run_page  # noqa: E402
from chaoskit.runner import stored  # noqa: E402
from chaoskit.store import Store  # noqa: E402
from tests.browser import chromium  # noqa: E402
from tinymodels.gallery.catalogue import mutants  # noqa: E402

IMAGES = ROOT / "docs" / "images"
PAGE = ROOT / "docs" / "report-examples.md"
#: In CSS pixels: as much of a page as fits on a desktop.
SIZE = (1280, 1000)
#: One of each family: the trainer ("" is the good one), the experiment, and what it forgot in the words of a person who
#: has read its source.
CHOSEN = (
    ("", "test_one_rank_mid_epoch", "nothing"),
    ("rng-missing", "test_one_rank_mid_epoch", "to save and restore the random number generators"),
    ("sampler-epoch-zero", "test_one_rank_mid_epoch", "to tell the sampler which epoch it is in"),
    ("optim-not-saved", "test_one_rank_mid_epoch", "to save the optimizer"),
    ("no-checksum", "test_flipped_bit", "to check that a checkpoint is still what was saved"),
    ("nan-loss-only", "test_nan[gradient-nan]", "to look at the gradients, and not only at the loss"),
)  # fmt: skip


@dataclass(frozen=True)
class Example:
    """One trainer in one experiment, and what its page says: the sentence at the top, and what each code means."""

    slug: str
    experiment: str
    forgot: str
    sentence: str
    meanings: dict[str, str]

    @property
    def image(self) -> str:
        """The file of its picture, as the page links to it."""
        return f"images/{self.slug or 'good'}.png"


def sitting(slug: str, experiment: str) -> Sitting:
    """The trainer in the experiment, with the arguments under which it shows what it does."""
    if not slug:
        return Sitting("", GOOD, (), (), (experiment,))
    (mutant,) = (one for one in mutants() if one.slug == slug)
    return Sitting(slug, mutant.module, mutant.args, mutant.options, (experiment,), mutant.nodes)


def run_of(slug: str, experiment: str, store: Path) -> Path:
    """The directory of the run, made where it is not kept yet."""
    answer = store / f"{slug or 'good'}.json"
    if not answer.exists():
        print(f"running {slug or 'the good trainer'}: {experiment}", file=sys.stderr, flush=True)
        store.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            sitting(slug, experiment).command(store, answer, "auto"), cwd=ROOT, capture_output=True
        )
        if not answer.exists():
            raise SystemExit(
                f"chaoskit ended with {done.returncode}:\n{done.stdout.decode()}{done.stderr.decode()}"
            )
    (told,) = json.loads(answer.read_text())["experiments"]
    return Path(told["run"])


def examples(store: Path, browser: Browser, scratch: Path) -> Iterator[Example]:
    """Every trainer, drawn and photographed."""
    for slug, experiment, forgot in CHOSEN:
        run = stored(run_of(slug, experiment, store), Store(store))
        drawn = scratch / f"{run.id}.html"
        page.write(run_page.render(run), drawn)
        context = browser.new_context(viewport={"width": SIZE[0], "height": SIZE[1]}, color_scheme="light")
        window = context.new_page()
        window.goto(drawn.as_uri())
        sentence = window.locator(".sentence").first.inner_text().strip()
        meanings = window.locator("#verdict .meanings")
        codes = meanings.locator("dt").all_inner_texts()
        told = dict(zip(codes, meanings.locator("dd").all_inner_texts(), strict=True))
        made = Example(slug, experiment, forgot, sentence, told)
        window.screenshot(path=PAGE.parent / made.image)
        context.close()
        yield made


def text(found: Sequence[Example]) -> str:
    """The page for people who have never seen chaoskit."""
    parts = [HEAD]
    for one in found:
        parts.append(f"## {f'`{one.slug}`' if one.slug else 'The good trainer'}\n")
        parts.append(f"`{one.experiment}`. It forgot {one.forgot}. The page says:\n")
        said = [one.sentence, *(f"`{code}`: {meaning}" for code, meaning in one.meanings.items())]
        parts.append("\n>\n".join(quoted(line) for line in said) + "\n")
        parts.append(
            f"![The top of that page: the verdict, and the loss beside the uninterrupted one]({one.image})\n"
        )
    return "\n".join(parts)


def quoted(line: str) -> str:
    """As Markdown quotes it."""
    return textwrap.fill(line, 118, initial_indent="> ", subsequent_indent="> ", break_on_hyphens=False)


HEAD = """\
# What the page of a run says

Five trainers of the [gallery](gallery.md), each broken on purpose in one place, and the good one. Each picture is the
top of the page that `chaoskit report` has made of a real run. Below it come the lanes of the ranks, the clock, the
table of alignment, the checks with their evidence, and the command that repeats the run. Whoever looks at such a page
does not know what was broken: it has to say so.

Made by `make screenshots`, which runs all of them again.
"""


def main() -> int:
    """Returns 0; raises SystemExit where a trainer could not be run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", type=Path, metavar="DIR", help="where the runs are kept (default: nowhere)")
    args = parser.parse_args()
    if why := chromium.missing():
        parser.error(why)
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="screenshots-") as scratch:
        store = (args.store or Path(scratch, "store")).absolute()
        for slug, experiment, _ in CHOSEN:
            run_of(slug, experiment, store)
        with chromium.started() as browser:
            found = list(examples(store, browser, Path(scratch)))
    PAGE.write_text(text(found))
    for one in found:
        size = (PAGE.parent / one.image).stat().st_size
        print(f"{one.image}: {size / 1000:.0f} kB: {one.sentence}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
