"""`Redaction`: puts `{secret:NAME}` in the place of what looks like a secret, before a command or a variable is stored.

A word is a secret by its name (`--hf-token X`, `KEY=VALUE`, a variable), as the password in an address
(`https://user:password@host`), or by its shape (`hf_...`, `AKIA...`). NAME is a variable of the environment: `fill`
takes the value from there, so that a stored job can run again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

#: What stands in the place of a secret.
PLACE = re.compile(r"\{secret:([A-Za-z_][A-Za-z0-9_]*)\}")
#: A value of at least this length is also replaced where it stands without its name.
LONG = 8

_SECRET = frozenset(("secret", "secrets", "password", "passwd", "passphrase", "credential", "credentials"))
_LAST = frozenset(("apikey", "authorization", "bearer"))
_KEYS = frozenset((
    "api", "access", "private", "auth", "wandb", "encryption", "signing", "account", "storage", "license",
))  # fmt: skip
#: What a name ends with that tells where a secret is, or which one, and is none.
_ABOUT = frozenset((
    "file", "path", "dir", "directory", "name", "id", "ref", "url", "type", "length", "size", "provider",
))  # fmt: skip
#: What the name of a switch begins with.
_SWITCH = frozenset(("use", "no", "has", "is", "with"))
#: Tokens of a text, as a language model has them.
_OF_TEXT = frozenset((
    "pad", "eos", "bos", "unk", "mask", "sep", "cls", "stop", "special", "image", "video", "audio", "start", "end",
    "begin", "prefix", "suffix", "fim", "per", "decoder", "label", "class", "first", "last", "next", "new",
))  # fmt: skip
_SHAPES = {
    "HF_TOKEN": r"hf_[A-Za-z0-9]{16,}",
    "GITHUB_TOKEN": r"gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{16,}",
    "GITLAB_TOKEN": r"glpat-[\w-]{16,}",
    "AWS_ACCESS_KEY_ID": r"(?:AKIA|ASIA)[A-Z0-9]{12,}",
    "API_KEY": r"sk-[\w-]{20,}|AIza[\w-]{30,}",
    "SLACK_TOKEN": r"xox[abprs]-[\w-]{10,}",
    "WANDB_API_KEY": r"wandb_v\d+_\w{16,}|local-[0-9a-f]{40}|(?<=wandb login )[0-9a-f]{40}",
    "TOKEN": r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",
}
_SHAPE = re.compile("|".join(f"(?P<{name}>(?<![A-Za-z0-9_])(?:{shape}))" for name, shape in _SHAPES.items()))
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ADDRESS = re.compile(r"(?<=://)([^\s/:@]*):([^\s/@]+)(?=@)")
#: A name that a value follows: behind '=' or ':', or, if the name is a flag, behind a blank or as the next of a list.
_NAMED = re.compile(
    r"""(?<![\w.-])(?!secret:\w+\})(?P<flag>--?)?(?P<name>[A-Za-z_][\w.-]*)(?P<between>["']?[=:]\s*|(?(flag)(?:\s+|["'],\s*["'])(?!-)|(?!)))"""
)
#: It ends before the next name of a list (`A=1,B=2`, `a=1&b=2`), and where a shell begins another command.
_VALUE = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'[^']*')+|(?:(?![,&][A-Za-z_][\w.-]*=)(?!;(?:\s|$))[^\s"'])+""")
_IN_QUOTES = {quote: re.compile(f"[^{quote}]+") for quote in "\"'"}
_FLAG = re.compile(r"-[\w.-]+")
_SCRIPT = re.compile(r"-\w*c")
_PLAIN = ("", "true", "false", "none", "null")


def looks_secret(name: str) -> bool:
    """Whether a flag, a variable or a key with this name has a secret as its value."""
    parts = [part.lower() for part in _PARTS.findall(name)]
    if not parts or parts[-1] in _ABOUT or parts[0] in _SWITCH:
        return False
    if parts[-1].endswith("token"):
        return parts[-1] != "detoken" and _OF_TEXT.isdisjoint(parts[-2:-1])
    if parts[-1] == "key":
        return not _SECRET.union(_KEYS).isdisjoint(parts[:-1])
    if parts[-1] == "pass":
        return name.isupper()
    return parts[-1] in _LAST or not _SECRET.isdisjoint(parts) or "apikey" in "".join(parts)


class Redaction:
    """Redacts what belongs to one job. The same value gets the same NAME, different ones get different NAMEs."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    @property
    def values(self) -> dict[str, str]:
        """The secrets so far, by NAME."""
        return {name: value for value, name in self._names.items()}

    def variables(self, given: Mapping[str, str]) -> dict[str, str]:
        """The variables of an environment."""
        return {
            name: self._place(name, value) if looks_secret(name) else self.text(value)
            for name, value in given.items()
        }

    def words(self, given: Sequence[str]) -> list[str]:
        """The words of a command."""
        found = []
        for before, word in zip(("", *given), given, strict=False):
            flag = before if _FLAG.fullmatch(before) else ""
            if flag and not word.startswith("-") and looks_secret(flag):
                found.append(self._place(flag, word))
            elif _SCRIPT.fullmatch(before):
                found.append(self._script(word))
            else:
                found.append(self._word(word))
        return [self._known(word) for word in found]

    def text(self, given: str) -> str:
        """A text with commands, addresses and assignments in it."""
        found, at = [], 0
        for named in _NAMED.finditer(given):
            quote = given[named.start() - 1 : named.start()]
            whole = quote in _IN_QUOTES and named["between"][:1] not in _IN_QUOTES
            value = (_IN_QUOTES[quote] if whole else _VALUE).match(given, named.end())
            if value is None or named.start() < at or not looks_secret(named["name"]):
                continue
            found += [given[at : value.start()], self._quoted(named["name"], value[0])]
            at = value.end()
        text = "".join((*found, given[at:]))
        text = _ADDRESS.sub(lambda found: f"{found[1]}:{self._place('URL_PASSWORD', found[2])}", text)
        return self._known(self._shapes(text))

    def tree(self, given: Any) -> Any:
        """Plain JSON, such as a manifest: its texts, its lists of words, and variables as `{"name", "value"}`."""
        if isinstance(given, str):
            return self.text(given)
        if isinstance(given, list | tuple):
            if all(isinstance(one, str) for one in given):
                return self.words(given)
            return [self.tree(one) for one in given]
        if isinstance(given, Mapping):
            name, value = given.get("name"), given.get("value")
            if isinstance(name, str) and isinstance(value, str) and looks_secret(name):
                return {**given, "value": self._place(name, value)}
            return {key: self.tree(value) for key, value in given.items()}
        return given

    def _word(self, word: str) -> str:
        name, sign, value = word.partition("=")
        if sign and re.fullmatch(r"[-+]*[A-Za-z_][\w.-]*", name) and looks_secret(name):
            return f"{self._shapes(name)}={self._place(name, value)}"
        return self._script(word) if re.search(r"\s", word) else self.text(word)

    def _script(self, text: str) -> str:
        """A command in one word. What a shell would make of its quotes is looked at, too."""
        redacted = self.text(text)
        try:
            words = shlex.split(text)
        except ValueError:
            return redacted
        if words != [text]:
            self.words(words)
        return self._known(redacted)

    def _quoted(self, name: str, value: str) -> str:
        quote = value[0] if len(value) > 1 and value[0] in "\"'" and value[0] == value[-1] else ""
        return quote + self._place(name, value[1:-1] if quote else value) + quote

    def _shapes(self, text: str) -> str:
        return _SHAPE.sub(lambda found: self._place(found.lastgroup or "", found[0]), text)

    def _known(self, text: str) -> str:
        for value, name in self._names.items():
            if len(value) >= LONG and value in text:
                # Between places only: they are no part of a value.
                parts, places = PLACE.split(text)[::2], [found[0] for found in PLACE.finditer(text)]
                shown = [part.replace(value, f"{{secret:{name}}}") for part in parts]
                text = "".join(part + place for part, place in zip(shown, (*places, ""), strict=True))
        return text

    def _place(self, name: str, value: str) -> str:
        if value.lower() in _PLAIN or PLACE.fullmatch(value):
            return value
        if value not in self._names:
            base = re.sub(r"\W+", "_", name).strip("_").upper()
            taken, number, unique = set(self._names.values()), 1, base
            while unique in taken:
                number += 1
                unique = f"{base}_{number}"
            self._names[value] = unique
        return f"{{secret:{self._names[value]}}}"


def redact_words(words: Sequence[str]) -> list[str]:
    """The words of a command, as they are stored."""
    return Redaction().words(words)


def redact_text(text: str) -> str:
    """A text that may contain a command, as it is stored."""
    return Redaction().text(text)


def missing(given: Any, values: Mapping[str, str]) -> list[str]:
    """The NAMEs in plain JSON that `values` lacks."""
    if isinstance(given, str):
        return [name for name in PLACE.findall(given) if name not in values]
    parts = given.values() if isinstance(given, Mapping) else given if isinstance(given, list | tuple) else ()
    return list(dict.fromkeys(name for part in parts for name in missing(part, values)))


def fill(given: Any, values: Mapping[str, str]) -> Any:
    """Plain JSON with each `{secret:NAME}` replaced by the value of NAME; one that `values` lacks stays."""
    if isinstance(given, str):
        return PLACE.sub(lambda found: values.get(found[1], found[0]), given)
    if isinstance(given, Mapping):
        return {key: fill(value, values) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return [fill(one, values) for one in given]
    return given
