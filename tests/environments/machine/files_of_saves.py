"""`Job`: ranks and their saves, whose records and files are written by hand."""

import json
import os
import time

from chaoskit.environments.machine import stored_checkpoints
from chaoskit.environments.machine.checkpoint_paths import checkpoint_paths


class Job:
    """Ranks that take a step a second, whose records and files are written by hand. `at` is in seconds."""

    def __init__(self, root):
        self.run_dir, self.out = root, root / "out"
        for name in ("events", "out"):
            (root / name).mkdir()
        self.launch, self.restart = 0, 0
        self.begin = time.monotonic() - 1000

    def say(self, rank, at, kind, **data):
        path = self.run_dir / "events" / f"rank-{self.launch}-{self.restart}-{rank}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        if not lines:
            start = {"role": "rank", "rank": rank, "pid": rank, "world": 2}
            start |= {"launch": self.launch, "restart": self.restart}
            lines = [json.dumps({"i": 0, "t": self.begin + at, "e": "process.start", **start})]
        lines.append(json.dumps({"i": len(lines), "t": self.begin + at, "e": kind, **data}))
        path.write_text("".join(line + "\n" for line in lines))

    def step(self, n, *, at, ranks=(0, 1)):
        for rank in ranks:
            self.say(rank, at, "step", n=n, losses=[], state={})

    def save(self, rank, n, path, *, at, took=0.2, ends=True, ok=True, full=True, content=None, files=None):
        ident = int(at * 1000)
        where = {"path": str(self.out / path), "api": "torch.save", "full": full, "content": content or {}}
        self.say(rank, at, "save.begin", id=ident, n=n, **where)
        if ends:
            wrote = {"files": files} if files is not None else {}
            self.say(rank, at + took, "save.end", id=ident, n=n, ok=ok, **wrote)

    def file(self, name, *, at):
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        self.stamp(path, at)

    def stamp(self, path, at):
        written = self.begin + at + time.time() - time.monotonic()
        os.utime(path, (written, written))

    def paths(self):
        return checkpoint_paths(self.run_dir, self.out)

    def newest(self):
        return stored_checkpoints.checkpoints(self.run_dir, self.out)[0]
