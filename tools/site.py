"""What the site needs beside mkdocs: anchors as GitHub makes them, and a hook for links out of `docs/`.

The pages are read in the checkout too. There a link may lead to a file outside `docs/`; the site has no such file.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Any

log = logging.getLogger("mkdocs.hooks.site")

_LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\((\.\.?/[^)#\s]+)(?:#[^)\s]*)?\)")
_FENCE = re.compile(r"^ *```")


def anchor(heading: str, separator: str) -> str:
    """The anchor of a heading, the same as on GitHub: a link within a page works in the checkout and on the site."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Replace each link to a file outside `docs/` by the path of that file.

    Warns, which `--strict` makes an error, if there is no such file.
    """
    docs = Path(config["docs_dir"])
    folder = docs / Path(page.file.src_path).parent

    def replace(found: re.Match[str]) -> str:
        text, target = found[1], Path(os.path.normpath(folder / found[2]))
        if target.is_relative_to(docs):
            return found[0]
        if not target.exists():
            log.warning("%s: the link %s leads to no file", page.file.src_path, found[2])
        path = str(target.relative_to(docs.parent)) + ("/" if found[2].endswith("/") else "")
        return f"`{path}`" if text.strip("`") == path else f"{text} (`{path}`)"

    lines, code = [], False
    for line in markdown.split("\n"):
        if _FENCE.match(line):
            code = not code
        lines.append(line if code else _LINK.sub(replace, line))
    return "\n".join(lines)
