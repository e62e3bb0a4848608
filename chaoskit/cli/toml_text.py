"""`toml_value`: writes values as TOML. The parser of Python only reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any


def toml_value(value: Any) -> str:
    """A text, a number, a date, true or false, a list of such, or a table in one line. Everything else is written as
    its text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_text(str(key))} = {toml_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(toml_value, value))}]"
    return str(value) if isinstance(value, int | float | date) else toml_text(str(value))


def toml_text(value: str) -> str:
    """A basic string of TOML: JSON has the same escapes, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
