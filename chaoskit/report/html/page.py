"""`render`: makes a self-contained HTML page from a template: it needs no network, no server and no other file.

All text from logs and names is escaped. A content security policy (CSP) in the page allows only chaoskit's own script.
"""

from __future__ import annotations

import os
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from chaoskit.analysis.record.steps import readable
from chaoskit.errors import UsageError
from chaoskit.files.whole_files import replace_file, usual_mode

TEMPLATES = Path(__file__).resolve().parent / "templates"
#: Shown for unknown values.
NOTHING = "–"


def render(template: str, **facts: object) -> str:
    """Render the template with the facts; a missing fact is an error."""
    return environment().get_template(template).render(facts)


def write(text: str, path: str | os.PathLike[str], *, option: str = "-o") -> None:
    """Write a page atomically and create its directory; raises UsageError, which names the command's `option`, if the
    file cannot be written."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise IsADirectoryError(21, "is a directory")
        replace_file(target, text.encode(errors="backslashreplace"), mode=usual_mode())
    except OSError as error:
        message = f"{option}: cannot write {os.fspath(path)!r} ({error.strerror}): name a writable file"
        raise UsageError(message) from error


@cache
def environment() -> Environment:
    """Return the jinja environment of all pages; autoescaping is on."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(seconds=seconds, number=number, readable=readable)
    script = (TEMPLATES / "page.js").read_text()
    # chaoskit's own files are trusted, so they are not escaped.
    made.globals.update(
        style=Markup((TEMPLATES / "page.css").read_text()), script=Markup(script), policy=_policy(script)
    )
    return made


def _policy(script: str) -> str:
    """Return the CSP: the browser runs only the script with this digest, and loads nothing from the network."""
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"


def seconds(value: float | None) -> str:
    """'1.2 s'; '–' if unknown."""
    return NOTHING if value is None else f"{value:.1f} s"


def number(value: float | None) -> str:
    """An integer unchanged, other numbers with four digits; '–' if unknown."""
    if value is None:
        return NOTHING
    return str(value) if isinstance(value, int) else f"{value:.4g}"
