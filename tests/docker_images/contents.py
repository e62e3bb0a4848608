"""What goes into each image: a small Debian; Python; the distributions that a trainer needs; tools of the network."""

from __future__ import annotations

import csv
import importlib.metadata
import os
import re
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from tests.docker_images.tree import LEFT_OUT, Tree, installed

#: The programs that an image of a team has all the same: those of Debian's slim images that scripts call.
PROGRAMS = (
    "bash sh cat chgrp chmod chown cp date dd df du echo env expr false find getent grep head hostname id kill ln ls "
    "mkdir mknod mktemp mv nice nproc od pwd readlink realpath rm rmdir sed seq setpriv sha256sum sleep sort stat sync "
    "tail tar tee test timeout touch tr true uname useradd groupadd wc which whoami xargs"
)
#: The libraries that every Debian has. Wheels from elsewhere expect them, whatever else here loads them or not.
LIBRARIES = """
    libc.so.6 libdl.so.2 libgcc_s.so.1 libm.so.6 libnss_dns.so.2 libnss_files.so.2 libpthread.so.0 libresolv.so.2
    librt.so.1 libstdc++.so.6 libutil.so.1 libz.so.1
"""
NETWORK_PROGRAMS = ["ip", "nft", "tc", "ss"]
#: What a trainer imports. chaoskit is not among them: an image under test need not have it.
FOR_TRAINERS = ["torch", "numpy", "safetensors", "pip"]
FOR_PYTHON = ["pip"]
#: What chaoskit imports, with the extra `kubernetes`.
FOR_CHAOSKIT = ["rich", "filelock", "xxhash", "jinja2", "pytest", "pytest-xdist", "kubernetes"]

#: The authorities that this system trusts; pip in an image trusts them too.
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
REPOSITORY = Path(__file__).parents[2]
#: chaoskit has directories that LEFT_OUT would leave out of others.
NOTHING = re.compile(r"(?!)")
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def system(programs: Iterable[str] = ()) -> Tree:
    """Collect a Debian that is just enough for a shell, from the one that runs."""
    tree = Tree()
    for directory in ("bin", "sbin", "lib", "lib64"):
        tree.link(directory, f"usr/{directory}")
    for directory, mode in {"tmp": 0o1777, "var/tmp": 0o1777, "root": 0o700}.items():
        tree.directory(directory, mode)
    for directory in (
        "proc",
        "sys",
        "dev",
        "run",
        "home",
        "opt",
        "usr/lib64",
        "usr/sbin",
        "var/lib",
        "usr/local/bin",
    ):
        tree.directory(directory)
    for name in (*PROGRAMS.split(), *programs):
        found = installed(name)
        if found is not None:
            tree.program(f"/usr/{'sbin' if 'sbin' in found.parts else 'bin'}/{name}", found)
    for name in LIBRARIES.split():
        library = Path(f"/usr/lib/{os.uname().machine}-linux-gnu/{name}")
        if library.exists():
            tree.program(str(library), library)
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    if loader.exists():
        tree.file(f"/usr{loader}", loader)
    tree.text(
        "etc/passwd", "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
    )
    tree.text("etc/group", "root:x:0:\nnogroup:x:65534:\n")
    tree.text("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    for kept in ("/etc/os-release", AUTHORITIES, "/etc/protocols", "/etc/services"):
        if os.path.exists(kept):
            tree.file(kept, Path(kept))
    return tree


def python(distributions: Iterable[str] = (), programs: Iterable[str] = ()) -> Tree:
    """Collect that, the interpreter that runs the tests, and these distributions with all that they require."""
    tree = system(programs)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    binary = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    prefix = "/usr" if sys.base_prefix == "/usr" else "/usr/local"  # where Debian's own looks, or any other one
    site = f"/usr/local/lib/python{version}/{'dist' if prefix == '/usr' else 'site'}-packages"
    stdlib = Path(sysconfig.get_path("stdlib"))
    tree.program(f"{prefix}/bin/python{version}", binary)
    tree.libraries_of(sorted((stdlib / "lib-dynload").glob("*.so")))
    tree.later(sys.version, lambda: tree.below(f"{prefix}/lib/python{version}", stdlib))
    for name in ("python3", "python"):
        tree.link(f"{prefix}/bin/{name}", f"python{version}")
    tree.directory(site)
    interpreter = f"{prefix}/bin/python{version}"
    for name in sorted(closure(distributions)):
        _add(tree, name, site, interpreter)
    return tree


def chaoskit() -> Tree:
    """Collect that, chaoskit as it is in this checkout, and what it imports."""
    tree = python(FOR_CHAOSKIT)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    prefix = "/usr" if sys.base_prefix == "/usr" else "/usr/local"
    for name in ("chaoskit", "experiments"):
        source = REPOSITORY / name
        state = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(source.rglob("*.*"))
                 if "__pycache__" not in path.parts]  # fmt: skip
        tree.later(state, lambda name=name, source=source: tree.below(f"/opt/source/{name}", source, NOTHING))
    lines = ("import sys", "sys.path.insert(0, '/opt/source')", "from chaoskit.cli.main import main")
    tree.text("usr/local/bin/chaoskit", "\n".join((f"#!{prefix}/bin/python{version}", *lines, "sys.exit(main())", "")))
    return tree


def closure(names: Iterable[str]) -> set[str]:
    """The distributions of these names and all that they require here, by their names in lower case."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = re.split(r"[\s;\[<>=!~(]", left.pop())[0].lower().replace("_", "-")
        if name in found:
            continue
        try:
            requires = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform or another Python
        found.add(name)
        left += [required for required in requires if "extra ==" not in required]
    return found


def _add(tree: Tree, name: str, site: str, interpreter: str) -> None:
    distribution = importlib.metadata.distribution(name)
    # Where the scripts lie differs from one virtual environment to the next.
    record = [
        row for row in csv.reader((distribution.read_text("RECORD") or "").splitlines()) if row[0][:2] != ".."
    ]
    named = [
        (inside, sha) for inside, sha, _ in record if sha and not inside.endswith(("/INSTALLER", "/REQUESTED"))
    ]
    tree.later((name, named), lambda: _add_files(tree, distribution, [inside for inside, _ in named], site))
    for script in distribution.entry_points:
        if script.group == "console_scripts":
            module, _, function = script.value.partition(":")
            lines = ("import sys", f"from {module} import {function}", f"sys.exit({function}())")
            tree.text(f"usr/local/bin/{script.name}", "\n".join((f"#!{interpreter}", *lines, "")))


def _add_files(tree: Tree, distribution: importlib.metadata.Distribution, names: list[str], site: str) -> None:
    sources = {name: Path(str(distribution.locate_file(name))) for name in names if not LEFT_OUT.search(name)}
    for name, source in sources.items():
        if source.is_file():
            tree.file(f"{site}/{name}", source)
    tree.libraries_of([source for name, source in sources.items() if re.search(r"\.so[.\d]*$", name)])
