"""`render`: facts and a template become one HTML page that needs no network, no server and no other file.

Whatever comes from logs and names is escaped, and a policy in the page (CSP) lets nothing run but the one script that
chaoskit put there.
"""

from __future__ import annotations

import os
import tempfile
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from chaoskit.errors import UsageError

TEMPLATES = Path(__file__).resolve().parent / "templates"
#: What stands where nothing is known.
NOTHING = "–"


def render(template: str, **facts: object) -> str:
    """The page that the template makes of the facts; a fact that the template needs and does not get is an error."""
    return environment().get_template(template).render(facts)


def write(text: str, path: str | os.PathLike[str], *, option: str = "-o") -> None:
    """Write a page, whole or not at all, its directory too; raises UsageError, naming the option that the path was
    given by, where that cannot be."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise IsADirectoryError(21, "is a directory")
        _replace(target, text.encode(errors="backslashreplace"))
    except OSError as error:
        message = (
            f"{option}: cannot write {os.fspath(path)!r} ({error.strerror}): name a place that can be written"
        )
        raise UsageError(message) from error


def _replace(target: Path, content: bytes) -> None:
    handle, draft = tempfile.mkstemp(prefix=f".{target.name[:40]}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(draft, 0o666 & ~umask)
        os.replace(draft, target)
    except BaseException:
        os.unlink(draft)
        raise


@cache
def environment() -> Environment:
    """The one environment of all pages; autoescaping is always on."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(seconds=seconds, number=number)
    script = (TEMPLATES / "page.js").read_text()
    # Files of ours, not facts: they stand in the page as they are.
    made.globals.update(
        style=Markup((TEMPLATES / "page.css").read_text()), script=Markup(script), policy=_policy(script)
    )
    return made


def _policy(script: str) -> str:
    """The browser runs a script only if it has this digest, and asks the network for nothing."""
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"


def seconds(value: float | None) -> str:
    """'1.2 s'; '–' where it is not known."""
    return NOTHING if value is None else f"{value:.1f} s"


def number(value: float | None) -> str:
    """A count as it is, anything else in four digits; '–' where it is not known."""
    if value is None:
        return NOTHING
    return str(value) if isinstance(value, int) else f"{value:.4g}"
