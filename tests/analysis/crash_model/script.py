"""Journals written by hand: what a program does to files, one call an operation, and what lies on a disk as a dict."""

from chaoskit.protocol.io_journal import Journal, Operation, to_line


class Script:
    """Writes a journal below a directory. Paths stand for files: numbers are given out as they are made."""

    def __init__(self, run_dir):
        self.run_dir = run_dir
        self.operations, self.data = [], b""
        self.files, self.numbers = {"": 0}, 0
        self.session = 1

    def create(self, path, kind="create", **fields):
        self.numbers += 1
        self.files[path] = self.numbers
        return self._add(kind, path, mode=fields.pop("mode", 0o755 if kind == "mkdir" else 0o644), **fields)

    def mkdir(self, path):
        return self.create(path, "mkdir")

    def symlink(self, path, to):
        return self.create(path, "symlink", to=to)

    def write(self, path, data, offset=0):
        self.data += data
        return self._add("write", path, offset=offset, size=len(data), data=len(self.data) - len(data))

    def truncate(self, path, size):
        return self._add("truncate", path, size=size)

    def chmod(self, path, mode):
        return self._add("chmod", path, mode=mode)

    def fsync(self, path, since=None):
        """By default it began when it ended."""
        kind = "fsyncdir" if path in self.directories() else "fsync"
        return self._add(kind, path, since=len(self.operations) if since is None else since)

    def rename(self, path, to, exchange=False):
        n = self._add("rename", path, to=to, replaced=None if exchange else self.files.get(to), exchange=exchange)
        if self.files[path] == self.files.get(to):
            return n
        moved = {name: number for name, number in self.files.items() if (name + "/").startswith(path + "/")}
        other = {name: number for name, number in self.files.items() if (name + "/").startswith(to + "/")}
        for name in (*moved, *other):
            del self.files[name]
        self.files |= {to + name[len(path) :]: number for name, number in moved.items()}
        if exchange:
            self.files |= {path + name[len(to) :]: number for name, number in other.items()}
        return n

    def link(self, path, to):
        n = self._add("link", path, to=to)
        self.files[to] = self.files[path]
        return n

    def unlink(self, path, kind="unlink"):
        n = self._add(kind, path)
        del self.files[path]
        return n

    def rmdir(self, path):
        return self.unlink(path, "rmdir")

    def directories(self):
        made = {one.file for one in self.operations if one.kind == "mkdir"}
        return {path for path, number in self.files.items() if number in made | {0}}

    def _add(self, kind, path, **fields):
        n = len(self.operations)
        self.operations.append(
            Operation(
                n=n, t=float(n), kind=kind, path=path, file=self.files[path],
                process=self.session, session=self.session, **fields,
            )
        )  # fmt: skip
        return n

    def journal(self):
        directory = self.run_dir / "journal"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "operations.jsonl").write_bytes(b"".join(map(to_line, self.operations)))
        (directory / "data").write_bytes(self.data)
        return Journal.read(self.run_dir)


def on_disk(directory):
    """All that lies below: bytes of files, None for directories, ("->", target) for symlinks."""
    found = {}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        found[name] = ("->", str(path.readlink())) if path.is_symlink() else None
        if path.is_file() and not path.is_symlink():
            found[name] = path.read_bytes()
    return found


def shape(directory):
    """What lies below, with modes, and with which names are one file."""
    inodes = {}
    for path in sorted(directory.rglob("*")):
        inodes.setdefault(path.lstat().st_ino, []).append(str(path.relative_to(directory)))
    modes = {
        str(path.relative_to(directory)): path.stat().st_mode
        for path in directory.rglob("*")
        if not path.is_symlink()
    }
    return on_disk(directory), modes, sorted(names for names in inodes.values() if len(names) > 1)


def held(state):
    """The same of a state, without writing it out."""
    tree, contents = state.tree, state.disk.contents
    found = {}
    for path, number in tree.walk():
        inode = tree.inodes[number]
        if path:
            found[path] = ("->", inode.to) if hasattr(inode, "to") else None
            if hasattr(inode, "extents"):
                found[path] = contents.read(inode)
    return found
