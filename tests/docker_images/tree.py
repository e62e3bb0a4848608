"""The files of an image: programs with the libraries that they load, an interpreter, installed distributions."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

#: What is in no image: what only compiles, only tests or is made again where it is needed.
LEFT_OUT = re.compile(
    r"(^|/)(test|tests|idle_test|include|share/cmake|idlelib|turtledemo|tkinter|ensurepip|config-3[^/]*)/"
    r"|\.(a|h|hpp|cuh|pyi|lib|cmake)$"
    r"|torch/bin/(?!torch_shm_manager)"
)


class Tree:
    """Places in an image, and the file, the link or the text that is there."""

    def __init__(self) -> None:
        self._files: dict[str, Path] = {}
        self._links: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._directories: dict[str, int] = {}
        self._binaries: list[Path] = []
        self._later: list[Callable[[], None]] = []
        self._identity: list[str] = []

    def directory(self, place: str, mode: int = 0o755) -> None:
        """An empty directory."""
        self._directories[place.strip("/")] = mode

    def link(self, place: str, to: str) -> None:
        """A symbolic link."""
        self._links[place.strip("/")] = to

    def text(self, place: str, content: str) -> None:
        """A file of these words."""
        self._texts[place.strip("/")] = content

    def identify(self, *parts: object) -> None:
        """Name what is added by other means than its files, so that they need not be looked at."""
        self._identity.append(repr(parts))

    def later(self, identity: object, add: Callable[[], None]) -> None:
        """Add something when the archive is written. Its identity stands for it: most calls only want the name."""
        self.identify(identity)
        self._later.append(add)

    def file(self, place: str, source: Path) -> None:
        """A copy of a file."""
        self._files.setdefault(place.strip("/"), source)
        if source.suffix == ".py":
            self._compiled(place, source)

    def below(self, place: str, source: Path, leave_out: re.Pattern[str] = LEFT_OUT) -> None:
        """Every file below a directory, but for site-packages and what `leave_out` names."""
        for directory, names, files in os.walk(source):
            names[:] = sorted(
                name for name in names if name not in ("site-packages", "dist-packages", "__pycache__")
            )
            for name in sorted(files):
                path = Path(directory, name)
                inside = path.relative_to(source).as_posix()
                if not leave_out.search(inside) and path.exists():
                    self.file(f"{place}/{inside}", path)

    def program(self, place: str, source: Path) -> None:
        """An executable or a library, and every library that it loads, where the loader looks for them."""
        state = source.stat()
        self.identify(place, state.st_size, state.st_mtime_ns)
        self.file(place, source)
        self.libraries_of([source])

    def libraries_of(self, binaries: list[Path]) -> None:
        """The libraries of the system that these load. What lies beside a binary of its own comes with that."""
        self._binaries += binaries

    def _look_up_libraries(self) -> None:
        done = subprocess.run(["ldd", *map(str, self._binaries)], capture_output=True, text=True, check=False)
        for found in set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", done.stdout, flags=re.MULTILINE)):
            if "site-packages" not in found and "dist-packages" not in found:
                system = found.startswith(("/lib", "/usr/lib"))
                where = "/usr" + found.removeprefix("/usr") if system else f"/usr/lib/{os.path.basename(found)}"
                self._files.setdefault(where.strip("/"), Path(found).resolve())

    def _compiled(self, place: str, source: Path) -> None:
        """The compiled module of a source file: an image without them would compile in every container."""
        if source.suffix == ".py":
            for compiled in sorted((source.parent / "__pycache__").glob(f"{source.stem}.cpython-3*.pyc")):
                if re.fullmatch(r"cpython-\d+\.pyc", compiled.name.removeprefix(f"{source.stem}.")):
                    place_of = f"{os.path.dirname(place)}/__pycache__/{compiled.name}".strip("/")
                    self._files.setdefault(place_of, compiled)

    def digest(self) -> str:
        """Name the content: the same files give the same name, in whichever virtual environment they lie."""
        loader = os.stat("/etc/ld.so.cache")  # newer whenever a library of the system is
        return digest(sorted(self._identity), sorted(self._links.items()), sorted(self._texts.items()),
                      sorted(self._directories.items()), LEFT_OUT.pattern, loader.st_mtime_ns)  # fmt: skip

    def write(self, stream: io.RawIOBase | io.BufferedIOBase) -> None:
        """Write an archive of everything, owned by root and readable by all."""
        for add in self._later:
            add()
        self._look_up_libraries()
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT) as archive:
            for place in self._all_directories():
                entry = tarfile.TarInfo(place)
                entry.type, entry.mode = tarfile.DIRTYPE, self._directories.get(place, 0o755)
                archive.addfile(entry)
            for place, to in sorted(self._links.items()):
                entry = tarfile.TarInfo(place)
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, to, 0o777
                archive.addfile(entry)
            for place, words in sorted(self._texts.items()):
                entry = tarfile.TarInfo(place)
                entry.size = len(words.encode())
                entry.mode = 0o755 if words.startswith("#!") else 0o644
                archive.addfile(entry, io.BytesIO(words.encode()))
            for place, source in sorted(self._files.items()):
                state = source.stat()
                entry = tarfile.TarInfo(place)
                entry.size, entry.mtime = state.st_size, int(state.st_mtime)
                entry.mode = 0o755 if state.st_mode & 0o111 else 0o644
                with source.open("rb") as content:
                    archive.addfile(entry, content)

    def _all_directories(self) -> Iterator[str]:
        places = {*self._files, *self._links, *self._texts}
        parents = {parent.as_posix() for place in (*places, *self._directories) for parent in Path(place).parents}
        yield from sorted({*parents, *self._directories} - {"."} - set(self._links))


def digest(*parts: object) -> str:
    """Name what has this representation."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def installed(program: str) -> Path | None:
    """Find a program of the system."""
    found = shutil.which(program, path="/usr/bin:/bin:/usr/sbin:/sbin")
    return Path(found) if found else None
