"""`PlainConsole`: the console of everything that is printed with rich."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from chaoskit.engine.terminal_text import UNPRINTABLE, printable


class PlainConsole(Console):
    """A console that shows text as it is: no markup, no codes of emoji, and everything `printable`."""

    def __init__(self, stream: TextIO, **options: Any) -> None:
        super().__init__(file=stream, highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """See rich. Here the width of what is escaped counts."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See rich. What rich itself tells the terminal is no text."""
        for segment in super().render(renderable, options):
            told = segment.control is not None or not UNPRINTABLE.search(segment.text)
            yield segment if told else segment._replace(text=printable(segment.text))
