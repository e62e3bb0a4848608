"""The package's page shows the README, where a link into the checkout leads nowhere: each becomes a full URL, or, while
the project has no address, only its words.

hatchling runs this hook when it writes the metadata of a wheel. In the checkout the README keeps its relative links.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

#: A link, or a picture if a `!` stands before it. A URL, a mail address and an anchor on the same page are left alone.
_LINK = re.compile(r"(!?)\[((?:!\[[^\]]*\]\([^)]*\)|[^\]\[])*)\]\((?![a-z][a-z0-9+.-]*:|#)([^)\s]+)\)")
_FENCE = re.compile(r"^ *```")


def absolute(text: str, source: str = "") -> str:
    """Give each relative link of a page at the top of the repository the address `source`, that of the repository.
    Without one a link becomes its words.

    A picture is shown from `/raw/`, a page is read at `/blob/`: GitHub and GitLab know both.
    """

    def replace(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        if not source:
            return str(words if picture else _LINK.sub(replace, words))
        return f"{picture}[{_LINK.sub(replace, words)}]({source}/{'raw' if picture else 'blob'}/HEAD/{target})"

    lines, code = [], False
    for line in text.split("\n"):
        if _FENCE.match(line):
            code = not code
        lines.append(line if code else _LINK.sub(replace, line))
    return "\n".join(lines)


class PackagePage(MetadataHookInterface):
    """Sets `readme`. The address is `Source` of `[project.urls]`, if there is one, and nowhere else."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source", "")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, source)}
