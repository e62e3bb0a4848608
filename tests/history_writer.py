"""Histories written by hand: a job that behaves as it is told, put down as the probe and the harness would.

    run = Writer()
    run.launch().live(until=25).fault("kill rank 1 at step 26").died()
    run.launch().live(base=20, off={"optimizer": 0}).exit(0).end("finished")
    case = run.case()

A position's state is text such as 'optimizer@40', so that a failing test says what it compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import Case
from chaoskit.protocol.events import Event
from chaoskit.protocol.fingerprint import of_bytes
from chaoskit.protocol.recording import AT_EVERY_STEP, Recording

#: Every column, and the random streams that nobody draws from.
NAMES = ("model", "buffers", "optimizer", "lr", "scaler", "ema", "rng.torch", "rng.python", "batch")
#: What differs from rank to rank.
LOCAL = ("rng.torch", "batch")
CONSTANT = ("rng.python",)
#: What hangs on the bits of the training: past a change of the world size it is other than the reference's.
TRAINED = ("model", "buffers", "optimizer", "scaler", "ema")


def truth(name: str, rank: int, position: int) -> str:
    """What the component of a rank is at a position, uninterrupted."""
    own = f".{rank}" if name in LOCAL else ""
    return f"{name}{own}" if name in CONSTANT else f"{name}{own}@{position}"


def loss(rank: int, step: int) -> str:
    """The loss of a step."""
    return (1.0 / (step + rank + 1)).hex()


def share(value: str, rank: int, world: int) -> str:
    """The part that a rank of so many holds of a sharded component."""
    parts = [int(of_bytes(f"{value}.{one}.{world}".encode())[:16], 16) for one in range(world - 1)]
    last = int(of_bytes(value.encode())[:16], 16) - sum(parts)
    return f"{[*parts, last][rank] % 2**64:016x}:{of_bytes(value.partition('@')[0].encode())}"


def printed(step: int) -> str:
    """The loss of a step of rank 0 as a log prints it."""
    return f"{float.fromhex(loss(0, step)):.4f}"


class Writer:
    """One run. Every method adds to the record and returns the writer; `t` is the clock, in seconds."""

    def __init__(
        self,
        *,
        steps: int = 60,
        ranks: int = 2,
        every: int = 20,
        names: Iterable[str] = NAMES,
        tell: Any = truth,
        samples: Callable[[int, int], Sequence[str]] | None = None,
        rows: Callable[[int, int], Sequence[str]] | None = None,
        content: Callable[[int, int], Mapping[str, str]] | None = None,
        epochs: Iterable[int] = (),
        tell_loss: Callable[[int, int], str] = loss,
        sharded: Iterable[str] = (),
        hold: bool = False,
    ) -> None:
        self.steps, self.ranks, self.every = steps, ranks, every
        self.names, self.truth, self.tell_loss = tuple(names), tell, tell_loss
        self.samples, self.rows = samples, rows
        self.content, self.epochs = content, tuple(epochs)
        self.sharded, self.hold = tuple(sharded), hold
        self.events: list[Event] = []
        self.t = 0.0
        self.launches = -1
        self.restart = 0
        self.lives = 0
        self.faults = 0
        self.ids = 0
        self.taken = 0
        self.source = ""

    def say(self, kind: str, source: str = "harness", **data: Any) -> Writer:
        """Any event, a hundredth of a second after the one before."""
        self.t += 0.01
        self.events.append(Event(kind, self.t, source, data))
        return self

    def launch(self, **told: Any) -> Writer:
        """The job's command is started, once more; `told` are further fields of that event."""
        self.launches += 1
        self.restart = 0
        return self.say("launch.start", launch=self.launches, **told)

    def restarted(self) -> Writer:
        """The elastic agent restarts the ranks inside the launch."""
        self.restart += 1
        return self

    def live(
        self,
        *,
        base: int = 0,
        until: int | None = None,
        off: Mapping[Any, int | str | None] | None = None,
        drift: bool = True,
        saves: bool = True,
        only: Iterable[int] | None = None,
        path: str = "step-{}.pt",
        epochs: Iterable[int] = (),
        patch: Mapping[tuple[int, int, str], str | None] | None = None,
        losses: Mapping[tuple[int, int], str] | None = None,
        ends: bool = False,
        torn: bool = False,
        extra: Mapping[int, str] | None = None,
        pause: int | None = None,
        world: int | None = None,
        since: int | None = None,
        consume: Callable[[int], Sequence[str]] | None = None,
        wobble: float = 1e-3,
        back: bool = False,
        strike: Mapping[int, Mapping[str, Any]] | None = None,
        leaves: Iterable[int] = (),
        halted: Iterable[int] = (),
    ) -> Writer:
        """The ranks come up at `base` and take their steps up to true step `until`, saving every so often.

        `off` says where components are instead of at `base`: by name or by (rank, name); a position, or a word for
        a state that the reference never had, or None for absent. What follows from that (`drift`) is a model and
        losses of their own. `patch` sets one fingerprint by (rank, true step, name), `losses` one loss by (rank,
        step). `only` are the ranks that live. `ends` lets the processes end by themselves. `torn` leaves the last
        save unfinished, `extra` are other saves by step and path, after step `pause` a fault is ridden out.

        `world` is how many ranks there are now, if not as many as in the reference; `since` the position at which the
        run has left the bits of the reference (`base`, where `world` is another). The samples of all ranks, or those
        that `consume` gives for a position, are dealt to those that there are; losses are off by `wobble`.

        `back`: no ranks come up, those of the life before go `back` in their processes, after a load. `strike` maps
        true steps to options of `corrupted`: what a fault does in the middle of them. `leaves` are true steps of which
        the record says that their update was left out. `halted` are ranks that are killed as they are about to take the
        last step, which the others take.
        """
        size = self.ranks if world is None else world
        since = base if since is None and size != self.ranks else since
        until = self.steps if until is None else until
        alive = list(range(size)) if only is None else list(only)
        self.alive, self.base, self.path, self.size, self.since = alive, base, path, size, since
        self.lives += not back
        self.taken = self.taken + self.done if back else 0
        if back:
            self.done = 0
            self.load(path.format(base))
        for rank in alive if not back else ():
            self.say(
                "process.start", self._source(rank), role="rank", rank=rank, pid=100 * self.lives + rank,
                launch=self.launches, restart=self.restart, world=size,
            )  # fmt: skip
        wrong = any(where != base for where in (off or {}).values())
        for step in range(base + 1, until + 1):
            n = step - base
            if strike and step in strike:
                self.corrupted(step, **strike[step])
            for rank in alive:
                if n - 1 in epochs:
                    self.say("epoch", self._source(rank), n=self.taken + n - 1)
                state = {}
                at = {"batch": step - 1}
                for name in self.names:
                    where = (off or {}).get((rank, name), (off or {}).get(name, base))
                    at[name] = where + n - 1 if isinstance(where, int) else -1
                    value: str | None
                    if isinstance(where, int):
                        value = self._told(name, rank, where + n - 1)
                    else:
                        value = f"{name}?{where}.{self.lives}.{n}" if where is not None else None
                    if wrong and drift and n > 1 and name in ("model", "optimizer", "ema", "buffers"):
                        value = f"{name}!{self.lives}.{n}"
                    value = (patch or {}).get((rank, step, name), value)
                    if value is not None:
                        state[name] = value
                parts = self._sharded(rank, state)
                own = (float(step) * 7).hex() if wrong and drift else self.tell_loss(rank, step)
                if since is not None and not (wrong and drift):
                    each = [float.fromhex(self.tell_loss(one, step)) for one in range(self.ranks)]
                    own = (sum(each) / self.ranks * (1 + wobble)).hex()
                own = (losses or {}).get((rank, step), own)
                more = {} if self.samples is None else {"samples": self._dealt(rank, at["batch"], consume)}
                if self.rows is not None:
                    more["rows"] = " ".join(self.rows(rank, at["batch"]))
                if back and n == 1:
                    more = {**more, "loaded": True}
                if step in leaves:
                    more = {**more, "left_out": True}
                told = {"n": self.taken + n, "losses": [own], "state": state}
                kind = "halt" if step == until and rank in halted else "step"
                self.say(kind, self._source(rank), **told, **more, **parts)
            self.t += 1.0
            if step == until:
                self.alive = [rank for rank in alive if rank not in halted]
            if saves and step % self.every == 0:
                self.save(n, unfinished=torn and step == until)
            if extra and step in extra:
                self.save(n, path=extra[step])
            if pause == step:
                self.fault("pause rank 1", heal=2.0)
        self.done = until - base
        if ends:
            self.ended()
        return self

    def _told(self, name: str, rank: int, position: int) -> str:
        """What the component is in the life that is being told."""
        told: str = self.truth(name, rank, position)
        if self.since is None:
            return told
        if name in LOCAL:
            return f"{told}~{self.size}"
        return f"{told}~" if name in TRAINED and position > self.since else told

    def _dealt(self, rank: int, position: int, consume: Callable[[int], Sequence[str]] | None) -> list[str]:
        """The samples of a rank."""
        assert self.samples is not None
        if self.since is None and consume is None:
            return list(self.samples(rank, position))
        every = [one for own in range(self.ranks) for one in self.samples(own, position)]
        return list(every if consume is None else consume(position))[rank :: self.size]

    def _sharded(self, rank: int, state: dict[str, str]) -> dict[str, Any]:
        """The parts of what is sharded, of which the fingerprint is that of a rank's own."""
        parts = {name: share(state[name], rank, self.size) for name in self.sharded if name in state}
        state.update({name: f"{state[name]} of {rank}/{self.size}" for name in parts})
        return {"parts": parts} if parts else {}

    def save(
        self,
        n: int | None = None,
        *,
        unfinished: bool = False,
        ok: bool = True,
        path: str | None = None,
        full: bool = True,
        nonfinite: Sequence[str] = (),
    ) -> Writer:
        """Every rank saves after its local step `n` (default: its last)."""
        n = self.done if n is None else n
        place = (path or self.path).format(self.base + n)
        ids = {}
        for rank in self.alive:
            self.ids += 1
            ids[rank] = self.ids
            call = {
                "id": self.ids,
                "n": self.taken + n,
                "path": f"{place}/{rank}",
                "api": "torch.save",
                "full": full,
            }
            if self.content is not None:
                call["content"] = dict(self.content(rank, self.base + n))
            if nonfinite:
                call["nonfinite"] = list(nonfinite)
            if self.hold and full:
                state = {name: self._told(name, rank, self.base + n) for name in ("model", "optimizer", "ema")}
                self.say("held", self._source(rank), n=self.taken + n, **self._sharded(rank, state), state=state)
            self.say("save.begin", self._source(rank), **call)
        if not unfinished:
            for rank in self.alive:
                self.say("save.end", self._source(rank), id=ids[rank], n=self.taken + n, ok=ok)
        return self

    def load(
        self, path: str, *, error: str = "", content: Callable[[int], Mapping[str, str]] | None = None
    ) -> Writer:
        """Every rank of the life just told reads `path` at its start, in vain if there is an error."""
        for rank in self.alive:
            self.ids += 1
            call = {"id": self.ids, "n": self.taken}
            self.say("load.begin", self._source(rank), **call, path=f"{path}/{rank}", api="torch.load")
            more = {} if content is None else {"content": dict(content(rank))}
            self.say("load.end", self._source(rank), **call, ok=not error, error=error, **more)
        return self

    def ended(self, uncaught: str = "") -> Writer:
        """The processes end by themselves, with an exception if one is given."""
        why = {"uncaught": uncaught} if uncaught else {}
        for rank in self.alive:
            self.say("process.end", self._source(rank), clean=not uncaught, **why)
        return self

    def tensors(self, n: int, component: str, tell: Callable[[int], Mapping[str, str]]) -> Writer:
        """The fingerprints of single tensors in step `n` of the life just told."""
        for rank in self.alive:
            self.say("tensors", self._source(rank), n=n, tensors={component: dict(tell(rank))})
        return self

    def fault(
        self,
        text: str = "kill rank 1",
        *,
        seen: bool = True,
        heal: float | None = None,
        evidence: Mapping[str, Any] | None = None,
    ) -> Writer:
        """A fault strikes now; `heal` seconds later it is healed."""
        self.say("fault.planned", fault=self.faults, what={"text": text})
        self.say("fault.requested", fault=self.faults)
        self.say("fault.applied", fault=self.faults, evidence=dict(evidence or {}))
        if seen:
            self.say("fault.observed", fault=self.faults)
        if heal is not None:
            self.t += heal
            self.say("fault.healed", fault=self.faults)
        self.faults += 1
        return self

    def corrupted(
        self,
        step: int,
        *,
        rank: int = 1,
        component: str = "gradient",
        after: str = "nan",
        others: Sequence[Mapping[str, Any]] = (),
    ) -> Writer:
        """A fault has changed a number in true step `step` of the life just told, and the rank says so."""
        told = {
            "rank": rank, "launch": self.launches, "restart": self.restart,
            "n": self.taken + step - self.base, "component": component, "where": "head.weight[3, 7]",
            "dtype": "float32", "before": [(1.5).hex()], "after": [after], "changed": 1, "of": 64,
        }  # fmt: skip
        self.say("corrupted", self._source(rank), id=self.faults, **told)
        more = {"others": list(others)} if others else {}
        return self.fault(f"{after} into the {component} of rank {rank}", evidence={**told, **more})

    def log(self, lines: Iterable[int | tuple[int, str]], *, by: str = "rank 0", document: bool = False) -> Writer:
        """The job's log of this launch and restart, or the one document that it keeps: a step a line, with the loss of
        rank 0 to four places or another text."""
        where = {"launch": None if document else self.launches, "restart": None if document else self.restart}
        for number, told in enumerate(lines, start=1):
            step, text = told if isinstance(told, tuple) else (told, printed(told))
            self.say("log", **where, by=by, line=number, step=step, loss=text)
        return self

    def exit(
        self, code: int, *, cause: str = "itself", survivors: Iterable[Mapping[str, Any]] = (), **told: Any
    ) -> Writer:
        """The job's command ends; `told` are further fields of that event."""
        self.t += 1.0
        told["survivors"] = list(survivors)
        return self.say("launch.end", launch=self.launches, code=code, cause=cause, **told)

    def died(self) -> Writer:
        """It ends with 1."""
        return self.exit(1)

    def end(self, status: str = "finished") -> Writer:
        """The run is over."""
        return self.say("run.end", status=status)

    def thin(self, every: int) -> Writer:
        """What the ranks would have recorded with `--record-every`."""
        ranks: dict[str, Recording] = {}
        for number, event in enumerate(self.events):
            rank = ranks.setdefault(event.source, Recording(every))
            if event.kind in ("save.begin", "load.begin"):
                rank.begins_anew(event["n"])
            elif event.kind == "step" and not (rank.whole(event["n"]) or event.get("loaded")):
                state = {name: value for name, value in event["state"].items() if name in AT_EVERY_STEP}
                data = {**event.data, "state": state, "thin": True}
                self.events[number] = Event(event.kind, event.t, event.source, data)
        return self

    def history(self) -> History:
        """What the record says."""
        return History.of(self.events)

    def control(self) -> Writer:
        """A whole uninterrupted run, with the savings of this writer."""
        other = Writer(
            steps=self.steps, ranks=self.ranks, every=self.every, names=self.names, tell=self.truth,
            samples=self.samples, rows=self.rows, content=self.content, tell_loss=self.tell_loss, sharded=self.sharded,
        )  # fmt: skip
        return other.launch().live(ends=True, epochs=self.epochs).exit(0).end()

    def case(self, reference: Reference | None = None) -> Case:
        """The run beside two equal controls, or another reference."""
        if reference is None:
            reference = Reference.of([self.control().history(), self.control().history()])
        return Case(self.history(), reference)

    def _source(self, rank: int) -> str:
        return f"rank-{rank}-{self.lives}"


def killed(*, at: int = 25, base: int = 20, off: Mapping[Any, Any] | None = None, **options: Any) -> Writer:
    """The usual story: a kill after step `at`, a relaunch that resumes from `base`, and the end."""
    run = Writer(**options)
    run.launch().live(until=at).fault().died()
    return run.launch().live(base=base, off=off, ends=True).exit(0).end()
