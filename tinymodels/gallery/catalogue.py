"""The catalogue of the gallery: what each trainer does wrong, read from its docstring and without importing it.

A docstring names the trainer and its mistake, then has one field after the other:

    Wrong:       what it does, why somebody would write it so, what one sees
    Evidence:    the reports it is modelled on: HF#11504 c (o open, c closed, m merged, p pull request, not merged)
    Codes:       the diagnosis that is right
    Also:        codes that may honestly come along
    Caught by:   experiments that show it: test_x, or test_x[y] for one of its ways; crash-states where nothing but the
                 states that a power cut may leave on the disk does (`chaoskit crash-states`)
    Missed:      why it is not caught, or not rightly named, where that is known
    Equivalent:  experiments that cannot show it, and why: test_x (reason), test_y test_z (reason)
    Args:        arguments of the trainer under which it shows
    Good args:   those under which the good trainer passes the same experiments, if not under the same
    Options:     options for whoever runs it
    Nodes:       on how many it shows, one rank on each, if one node is not enough: 2, or 1:2 if they must become fewer
    Star:        yes, for the most common and the most damaging
    Family:      which part of the trainer it breaks

Of these Also, Missed, Equivalent, Args, Good args, Options, Nodes and Star may be left out.

In sound/ are trainers that look like broken ones and are right. Their docstrings have other fields:

    Right:       why nothing is lost
    Silent in:   experiments that must pass
    Args:        arguments of the trainer; may be left out
"""

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
OPTIONAL = ("Also", "Missed", "Equivalent", "Args", "Good args", "Options", "Nodes", "Star")
FIELDS = ("Wrong", "Evidence", "Codes", "Caught by", "Family", *OPTIONAL)
OF_SOUND = ("Right", "Silent in", "Args")

#: The name of an experiment, or of one of its ways.
EXPERIMENT = r"test_\w+(\[[\w-]+\])?"
#: In "Caught by": not an experiment, but every state that a crash in one save could leave.
CRASH_STATES = "crash-states"

# What the reports are shortened to. Others are written out: owner/name#12 c.
REPOSITORIES = {
    "HF": "huggingface/transformers",
    "ACC": "huggingface/accelerate",
    "PL": "Lightning-AI/pytorch-lightning",
    "PT": "pytorch/pytorch",
    "TT": "pytorch/torchtitan",
    "MLM": "NVIDIA/Megatron-LM",
    "AM": "NVIDIA-NeMo/Automodel",
    "DS": "deepspeedai/DeepSpeed",
    "ST": "bghira/SimpleTuner",
    "KF": "KempnerInstitute/KempnerForge",
}


@dataclass(frozen=True)
class Mutant:
    """One broken trainer. `module` is what `python -m` wants; `equivalent` maps an experiment to its reason; with
    `good_args` the good trainer passes its experiments."""

    slug: str
    module: str
    title: str
    wrong: str
    evidence: tuple[str, ...]
    codes: tuple[str, ...]
    also: tuple[str, ...]
    caught_by: tuple[str, ...]
    equivalent: dict[str, str]
    args: tuple[str, ...]
    good_args: tuple[str, ...]
    options: tuple[str, ...]
    star: bool
    family: str
    missed: str
    nodes: str = "1"


@dataclass(frozen=True)
class Sound:
    """One trainer that looks broken and is right: these experiments must be silent on it."""

    slug: str
    module: str
    title: str
    right: str
    silent_in: tuple[str, ...]
    args: tuple[str, ...]


def mutants(folder: Path = FOLDER) -> tuple[Mutant, ...]:
    """Every trainer of the gallery, by name. Raises ValueError, with file and field, for a malformed docstring."""
    here = {"__init__.py", Path(__file__).name}
    return tuple(read(path) for path in sorted(folder.glob("*.py")) if path.name not in here)


def sound(folder: Path = FOLDER / "sound") -> tuple[Sound, ...]:
    """Every trainer that looks broken and is right, by name. Raises ValueError as `mutants` does."""
    paths = (path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py")
    return tuple(_Docstring(path, OF_SOUND).sound() for path in paths)


def read(path: Path) -> Mutant:
    """The trainer in one file."""
    return _Docstring(path).mutant()


class _Docstring:
    """The docstring of one file, field by field. Whatever is wrong with it is told with the file's name."""

    def __init__(self, path: Path, fields: tuple[str, ...] = FIELDS) -> None:
        self.path = path
        text = ast.get_docstring(ast.parse(path.read_text(), str(path)))
        self.head, _, rest = (text or "").partition("\n\n")
        self.fields: dict[str, str] = {}
        name = ""
        for line in rest.splitlines():
            if found := re.match(r"([A-Z][a-z]+(?: [a-z]+)?): +(.*)", line):
                name, line = found.groups()
                if name not in fields:
                    raise self.error(name, f"there is no such field; there are {', '.join(fields)}")
                if name in self.fields:
                    raise self.error(name, "it is there twice")
            self.fields[name] = f"{self.fields.get(name, '')} {line.strip()}".strip()
        if self.fields.pop("", ""):
            raise self.error(fields[0], "it must be the first field")
        for name in fields:
            if not self.fields.get(name) and (name in self.fields or name not in OPTIONAL):
                raise self.error(name, "it is missing or empty")

    def sound(self) -> Sound:
        slug, title = self.heading()
        return Sound(
            slug=slug,
            module=f"tinymodels.gallery.sound.{self.path.stem}",
            title=title,
            right=self.fields["Right"],
            silent_in=self.words("Silent in", EXPERIMENT),
            args=self.arguments("Args"),
        )

    def mutant(self) -> Mutant:
        slug, title = self.heading()
        return Mutant(
            slug=slug,
            module=f"tinymodels.gallery.{self.path.stem}",
            title=title,
            wrong=self.fields["Wrong"],
            evidence=tuple(self.reports()),
            codes=self.words("Codes", r"[a-z]+(-[a-z]+)*"),
            also=self.words("Also", r"[a-z]+(-[a-z]+)*"),
            caught_by=self.words("Caught by", rf"{EXPERIMENT}|{CRASH_STATES}"),
            equivalent=dict(self.reasons()),
            args=self.arguments("Args"),
            good_args=self.arguments("Good args") or self.arguments("Args"),
            options=self.arguments("Options"),
            star=self.star(),
            family=self.fields["Family"],
            missed=self.fields.get("Missed", ""),
            nodes=self.nodes(),
        )

    def heading(self) -> tuple[str, str]:
        found = re.fullmatch(r"([a-z0-9-]+): (\S.*\.)", " ".join(self.head.split()))
        if not found:
            raise self.error("slug", "the docstring must begin with 'slug: one sentence.'")
        slug, title = found.groups()
        if slug.replace("-", "_") != self.path.stem:
            raise self.error("slug", f"{slug} does not belong to this file")
        return slug, title

    def reports(self) -> Iterator[str]:
        for report in self.fields["Evidence"].split(", "):
            found = re.fullmatch(r"(\w+|[\w.-]+/[\w.-]+)#\d+ [ocmp]", report)
            if not found or ("/" not in found[1] and found[1] not in REPOSITORIES):
                raise self.error("Evidence", f"{report!r} is not a report such as 'HF#11504 c'")
            yield report

    def words(self, name: str, pattern: str) -> tuple[str, ...]:
        words = self.fields.get(name, "").split()
        for word in words:
            if not re.fullmatch(pattern, word):
                raise self.error(name, f"{word!r} is none")
        return tuple(words)

    def reasons(self) -> Iterator[tuple[str, str]]:
        text = self.fields.get("Equivalent", "")
        part = r"((?:test_\w+ )+)\(([^()]+)\)"
        if text and not re.fullmatch(rf"{part}(, {part})*", text):
            raise self.error("Equivalent", "it must read 'test_x (reason), test_y test_z (reason)'")
        for experiments, reason in re.findall(part, text):
            yield from ((experiment, reason) for experiment in experiments.split())

    def arguments(self, name: str) -> tuple[str, ...]:
        try:
            return tuple(shlex.split(self.fields.get(name, "")))
        except ValueError as problem:
            raise self.error(name, str(problem)) from None

    def nodes(self) -> str:
        text = self.fields.get("Nodes")
        if text not in (None, "2", "1:2"):
            raise self.error("Nodes", f"{text!r} is neither 2 nor 1:2")
        return text or "1"

    def star(self) -> bool:
        if self.fields.get("Star", "yes") != "yes":
            raise self.error("Star", "it is 'yes' or left out")
        return "Star" in self.fields

    def error(self, name: str, problem: str) -> ValueError:
        return ValueError(f"{self.path}: {name}: {problem}")
