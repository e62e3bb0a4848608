"""What the page of a run says about trainers that are broken on purpose, and how it looks:
`docs/reference/report-examples.md`.

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

from gallery_sittings import GOOD, Sitting  # noqa: E402
from PIL import Image  # noqa: E402
from playwright.sync_api import Browser  # noqa: E402

from chaoskit.engine.run_store import Store  # noqa: E402
from chaoskit.engine.runner import stored  # noqa: E402
from chaoskit.report.html import page, run_page  # noqa: E402
from tests.report.browser import chromium  # noqa: E402
from tinymodels.gallery.catalogue import mutants  # noqa: E402

IMAGES = ROOT / "docs" / "images"
PAGE = ROOT / "docs" / "reference" / "report-examples.md"
#: In CSS pixels: as much of a page as fits on a desktop.
SIZE = (1280, 1000)
#: One of each family: the trainer ("" is the good one), the experiment, and its bug in the words of a person who has
#: read its source.
CHOSEN = (
    ("", "test_one_rank_mid_epoch", "It has no bug."),
    ("rng-missing", "test_one_rank_mid_epoch", "It does not save and restore the random number generators."),
    ("sampler-epoch-zero", "test_one_rank_mid_epoch", "It does not set the epoch of the sampler."),
    ("optim-not-saved", "test_one_rank_mid_epoch", "It does not save the optimizer."),
    ("no-checksum", "test_flipped_bit", "It does not verify the contents of a checkpoint before it loads them."),
    ("nan-loss-only", "test_nan[gradient-nan]", "It checks only the loss for NaN, not the gradients."),
)  # fmt: skip


@dataclass(frozen=True)
class Example:
    """One trainer in one experiment, and what its page says: the sentence at the top, and what each code means."""

    slug: str
    experiment: str
    bug: str
    sentence: str
    meanings: dict[str, str]

    @property
    def image(self) -> str:
        """The file of its picture, as the page links to it."""
        return f"../images/{self.slug or 'good'}.png"


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


def examples(
    chosen: Sequence[tuple[str, str, str]], store: Path, browser: Browser, scratch: Path, images: Path
) -> Iterator[Example]:
    """Draw the page of each chosen trainer and photograph its top."""
    for slug, experiment, bug in chosen:
        run = stored(run_of(slug, experiment, store), Store(store))
        drawn = scratch / f"{run.id}.html"
        page.write(run_page.render(run), drawn)
        context = browser.new_context(viewport={"width": SIZE[0], "height": SIZE[1]}, color_scheme="light")
        window = context.new_page()
        window.goto(drawn.as_uri())
        sentence = window.locator(".sentence").first.inner_text().strip()
        meanings = window.locator("#verdict .meanings")
        codes = meanings.locator("dt").all_inner_texts()
        # Without the remedy, which stands in an element of its own.
        said = meanings.locator("dd").evaluate_all("all => all.map(one => one.firstChild.textContent.trim())")
        told = dict(zip(codes, said, strict=True))
        made = Example(slug, experiment, bug, sentence, told)
        picture = images / Path(made.image).name
        window.screenshot(path=picture)
        shrink(picture)
        context.close()
        yield made


def shrink(picture: Path) -> None:
    """Keep 256 colours, the rare ones too: a page has few, and the file is about half as large."""
    with Image.open(picture) as whole:
        small = whole.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(picture, optimize=True)


def text(found: Sequence[Example]) -> str:
    """The page for people who have never seen chaoskit."""
    parts = [HEAD]
    for one in found:
        parts.append(f"## {f'`{one.slug}`' if one.slug else 'The good trainer'}\n")
        parts.append(f"`{one.experiment}`. {one.bug} The page says:\n")
        said = [one.sentence, *(f"`{code}`: {meaning}" for code, meaning in one.meanings.items())]
        parts.append("\n>\n".join(quoted(line) for line in said) + "\n")
        parts.append(
            f"![The top of that page: the verdict, and the loss beside that of the uninterrupted run]({one.image})\n"
        )
    return "\n".join(parts)


def quoted(line: str) -> str:
    """As Markdown quotes it."""
    return textwrap.fill(line, 118, initial_indent="> ", subsequent_indent="> ", break_on_hyphens=False)


HEAD = """\
# What the page of a run says

Five trainers of the [gallery](gallery.md), each broken on purpose in one place, and the good trainer. Each picture
shows the top of the page that `chaoskit report` made of a real run. Further down the page has the lanes of the ranks,
the timeline in seconds, the table of alignment, the checks with their evidence, and the command that repeats the run.
The reader of such a page does not know which part of the trainer is broken: the page has to show it.

`make screenshots` runs all of them again and writes this page.
"""


def main() -> int:
    """Returns 0; raises SystemExit where a trainer could not be run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", type=Path, metavar="DIR", help="where the runs are kept (default: nowhere)")
    parser.add_argument("--only", metavar="SLUG", help="this trainer alone ('good': the good one); writes no page")
    args = parser.parse_args()
    chosen = [one for one in CHOSEN if args.only in (None, one[0] or "good")]
    if not chosen:
        parser.error(
            f"there is no trainer {args.only!r}; there are {', '.join(one[0] or 'good' for one in CHOSEN)}"
        )
    if why := chromium.missing():
        parser.error(why)
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="screenshots-") as scratch:
        store = (args.store or Path(scratch, "store")).absolute()
        for slug, experiment, _ in chosen:
            run_of(slug, experiment, store)
        with chromium.started() as browser:
            images = Path(scratch) if args.only else IMAGES
            found = list(examples(chosen, store, browser, Path(scratch), images))
        sizes = [(images / Path(one.image).name).stat().st_size for one in found]
    if not args.only:
        PAGE.write_text(text(found))
    for one, size in zip(found, sizes, strict=True):
        print(f"{one.image}: {size / 1000:.0f} kB: {one.sentence}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
