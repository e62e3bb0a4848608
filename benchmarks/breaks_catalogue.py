"""Finds every check, fault and launcher in the sources, and says how each of them can be broken.

Nothing is imported and no path is fixed: classes are found by their shape. A check has `__call__(self, case)`, a fault
`apply` and `observed`, a way of damaging files `files` and `change`, a launcher `start(self, order)`, a launch `ended`,
`stop` and `close`, an environment `launch`, `wait` and `stop`. A class that several faults share counts once; `names`
says whose it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from breaks_sources import Definition, Sources


@dataclass(frozen=True)
class Break:
    """One change of the sources: `text` is put behind line `line` of `file`. `names` are the class and the functions
    that make it, `related` who else uses it (of launchers only), `group` is 'checks', 'faults' or 'launchers'."""

    group: str
    kind: str
    owner: str
    file: str
    line: int
    text: str
    names: tuple[str, ...]
    related: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.kind}: {self.owner}"


def breaks(root: Path) -> list[Break]:
    """Every way of breaking a check, fault or launcher of the sources below `root`, in a fixed order."""
    sources = Sources(root)
    found = [*_checks(sources), *_faults(sources), *_launchers(sources)]
    ids = [each.id for each in found]
    if len(set(ids)) < len(ids):
        twice = {each for each in ids if ids.count(each) > 1}
        raise LookupError(
            f"two classes share a name, so their breaks cannot be told apart: {', '.join(sorted(twice))}"
        )
    return found


def _checks(sources: Sources) -> Iterator[Break]:
    """Only the verdict is another; sentence and evidence stay, so that no test is alarmed by them alone."""
    verdicts, errors = sources.where("Verdict"), sources.where("UsageError")
    changes = {
        "check always passes": ("is not Outcome.PASS", "Outcome.PASS, codes=()"),
        "check never fails": ("is Outcome.FAIL", "Outcome.PASS, codes=()"),
        "check never passes": ("is Outcome.PASS", "Outcome.FAIL, codes=tuple(CODES)[:1]"),
        "check cannot speak": ("is not Outcome.INCONCLUSIVE", 'Outcome.INCONCLUSIVE, codes=("probe-blind",)'),
    }
    for owner in sources.classes:
        for kind, (where, change) in changes.items() if owner.takes("__call__", "case") else ():
            if kind == "check never fails" and "failed" not in owner.module.imports:
                continue  # it never does
            yield _method(sources, owner, "checks", kind, "__call__", f"""
                def _broken(self, case, _whole={owner.name}.__call__):
                    from dataclasses import replace
                    from {errors} import CODES
                    from {verdicts} import Outcome
                    found = _whole(self, case)
                    return replace(found, outcome={change}) if found.outcome {where} else found
            """)  # fmt: skip


def _faults(sources: Sources) -> Iterator[Break]:
    one = {
        ("observed", "fault is never observed"): "lambda self, env, applied: None",
        ("apply", "fault does nothing when applied"): "lambda self, env, world_size: {}",
        ("strike", "fault does nothing when it strikes"): "lambda self, env, rank, applied: dict(applied)",
        ("tick", "fault is not driven while it lasts"): "lambda self, env, applied: applied",
        ("heal", "fault is not healed"): "lambda self, env, applied: {}",
    }
    for owner in sources.classes:
        if {"apply", "observed"} <= set(owner.methods):
            if _looks(owner.methods["observed"]):
                yield _method(sources, owner, "faults", "fault claims to be observed", "observed", f"""
                    def _broken(self, env, applied, _whole={owner.name}.observed):
                        try:
                            seen = _whole(self, env, applied)
                        except LookupError:
                            seen = None
                        return seen if seen is not None else {{"broken": "on purpose"}}
                """)  # fmt: skip
            for (method, kind), text in one.items():
                # What does not look at the environment has nothing to lose.
                if method in owner.methods and _looks(owner.methods[method]):
                    yield _method(sources, owner, "faults", kind, method, f"_broken = {text}")
        elif {"files", "change", "tell"} <= set(owner.methods):
            text = "_broken = lambda self, name, site: {}"
            yield _method(sources, owner, "faults", "fault does nothing when applied", "change", text)


def _looks(method: ast.FunctionDef) -> bool:
    """Whether a method of a fault uses anything that it is given."""
    given = {each.arg for each in method.args.args[1:]}
    return any(isinstance(each, ast.Name) and each.id in given for part in method.body for each in ast.walk(part))


#: What a launched command cannot do without; the rest of its environment is the user's.
NEEDED = ("CHAOSKIT", "HOME", "PATH", "PET_", "PYTHON", "TMPDIR", "BREAKS_")


def _launchers(sources: Sources) -> Iterator[Break]:
    for owner in sources.classes:
        if owner.takes("start", "order"):
            yield from _launcher(sources, owner)
        elif owner.takes("start", "args", "env"):
            text = "_broken = lambda self, args, env, *, stdout, stderr: None"
            yield _method(sources, owner, "launchers", "launcher does not start", "start", text)
        elif {"fileno", "ended", "stop", "close"} <= set(owner.methods):
            yield from _launch(sources, owner)
        elif "_end_all" in owner.methods:
            text = "_broken = lambda self: []"
            yield _method(sources, owner, "launchers", "launcher leaves the ranks alive", "_end_all", text)
        elif owner.takes("launch", "index", "command") or (owner.takes("wait", "timeout") and owner.takes("stop")):
            yield from _environment(sources, owner)
    for module in sources.modules.values():
        for name, node in module.makers.items():
            if name.endswith("_environment") and isinstance(node, ast.FunctionDef) and _is_mapping(node.returns):
                found = Definition(module, node)
                text = _without_environment(name)
                yield _method(sources, found, "launchers", "launcher drops the environment", "", text)


def _is_mapping(returns: ast.expr | None) -> bool:
    return returns is not None and ast.unparse(returns) == "dict[str, str]"


def _launcher(sources: Sources, owner: Definition) -> Iterator[Break]:
    def around(kind: str, lines: str) -> Break:
        """A launch of this launcher's own (not one that it left to another) is changed by `lines`."""
        return _method(sources, owner, "launchers", kind, "start", f"""
            def _broken(self, order, _whole={owner.name}.start):
                from dataclasses import replace
                from {sources.where("LaunchEnd")} import LaunchEnd
                launch = _whole(self, order)
                if launch.how.startswith("cold: "):
                    return launch
                ended = launch.ended
                {lines}
                return launch
        """)  # fmt: skip

    yield _refuses(sources, owner, "start", "self, order")
    yield _method(sources, owner, "launchers", "launcher drops the environment", "start", f"""
        def _broken(self, order, _whole={owner.name}.start):
            from dataclasses import replace
            env = {{name: value for name, value in order.env.items() if name.startswith({NEEDED!r})}}
            return _whole(self, replace(order, env=env))
    """)  # fmt: skip
    changed = "launch.ended = lambda: None if (end := ended()) is None else replace(end, code={})"
    yield around("launcher tells a failure as success", changed.format("0"))
    yield around("launcher tells success as a failure", changed.format("end.code or 1"))
    stops = "launch.stop = lambda: () if ended() else setattr(launch, 'ended', lambda: LaunchEnd(-9)) or ()"
    yield around("launcher leaves the ranks alive", stops)


def _launch(sources: Sources, owner: Definition) -> Iterator[Break]:
    for kind, change in {
        "launcher tells a failure as success": "code=0",
        "launcher tells success as a failure": "code=end.code or 1",
        "launcher forgets who survived": "survivors=()",
    }.items():
        yield _method(sources, owner, "launchers", kind, "ended", f"""
            def _broken(self, _whole={owner.name}.ended):
                from dataclasses import replace
                end = _whole(self)
                return None if end is None else replace(end, {change})
        """)  # fmt: skip
    yield _method(sources, owner, "launchers", "launcher leaves the ranks alive", "stop", f"""
        def _ended(self, _whole={owner.name}.ended):
            from {sources.where("LaunchEnd")} import LaunchEnd
            return LaunchEnd(-9) if getattr(self, "_stopped", False) else _whole(self)

        {owner.name}.ended = _ended

        def _broken(self):
            self._stopped = getattr(self, "_stopped", False) or self.ended() is None
            return ()
    """)  # fmt: skip
    text = "_broken = lambda self: None"
    yield _method(sources, owner, "launchers", "launcher does not close", "close", text)
    if owner.takes("join", "node"):
        text = "_broken = lambda self, node: None"
        yield _method(sources, owner, "launchers", "launcher does not start", "join", text)


def _environment(sources: Sources, owner: Definition) -> Iterator[Break]:
    if "launch" in owner.methods:
        yield _refuses(sources, owner, "launch", "self, index, command")
    if "stop" in owner.methods:
        text = "_broken = lambda self: ()"
        yield _method(sources, owner, "launchers", "launcher leaves the ranks alive", "stop", text)
    for name, method in owner.methods.items():
        if name.startswith("_environ") and method.returns is not None:
            text = _without_environment(f"{owner.name}.{name}")
            yield _method(sources, owner, "launchers", "launcher drops the environment", name, text)


def _without_environment(name: str) -> str:
    """What makes the environment of a job loses what the user has set, or, for one node, everything."""
    return f"""
        def _broken(*given, _whole={name}, **more):
            import os
            env = _whole(*given, **more).items()
            kept = {{name: value for name, value in env if name.startswith({NEEDED[:-1]!r})}}
            return {{**os.environ, **kept}} if "PATH" in kept else {{}}
    """


def _refuses(sources: Sources, owner: Definition, method: str, arguments: str) -> Break:
    return _method(sources, owner, "launchers", "launcher does not start", method, f"""
        def _broken({arguments}):
            from chaoskit.errors import UsageError
            raise UsageError("broken on purpose")
    """)  # fmt: skip


def _method(sources: Sources, owner: Definition, group: str, kind: str, method: str, text: str) -> Break:
    """The break that puts `_broken`, which `text` defines, in place of a method (of a function, where it is empty)."""
    assert owner.node.end_lineno is not None
    target = f"{owner.name}.{method}" if method else owner.name
    made = f"\n\n{dedent(text).strip()}\n\n\n{target} = _broken\n"
    names = (owner.name, *sources.makers(owner))
    related = sources.users(owner) if group == "launchers" else ()
    return Break(group, kind, owner.name, owner.module.file, owner.node.end_lineno, made, names, related)
