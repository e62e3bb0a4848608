"""Where the probe hooks into torch. Each wrapper calls the original exactly once; the probe's errors stay inside."""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from chaoskit.fingerprint import is_tensor
from chaoskit.probe.captures import capture
from chaoskit.probe.components import unwrapped

if TYPE_CHECKING:
    from chaoskit.probe.observer import Observer
    from chaoskit.probe.session import Session


def install(session: Session, observer: Observer, torch: Any) -> None:
    """Hook into the torch that the job has just imported."""
    hooks = _Hooks(session, observer, torch)
    hooks.modules()
    hooks.backward()
    hooks.optimizers()
    hooks.scalers()
    hooks.averages()
    hooks.loaders()
    hooks.process_groups()


class _Hooks:
    def __init__(self, session: Session, observer: Observer, torch: Any) -> None:
        self.session = session
        self.observer = observer
        self.torch = torch
        self.depth = 0
        self.backwards = 0
        self.wrapped: Any = None

    def modules(self) -> None:
        """The outermost forward pass in training mode gives the batch.

        torch's global forward pre-hook is not given keyword arguments, and any global hook changes how torch.compile
        treats modules; `Module.__call__` sees everything. It is replaced before torch._dynamo is imported, which then
        takes it for the original.
        """
        module_class = self.torch.nn.Module
        original = module_class.__call__
        grad_enabled = self.torch.is_grad_enabled

        @functools.wraps(original)
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            # Recomputation inside a backward pass (activation checkpointing) is no new batch.
            if self.depth or self.backwards or not module.training or not grad_enabled():
                if module is self.wrapped:
                    self._begins(module)
                return original(module, *args, **kwargs)
            self.depth += 1
            inner = unwrapped(module)
            if inner is module:
                self._begins(module)
            else:
                self.wrapped = inner
            try:
                self.session.guard("forward", self.observer.forward, module, args, kwargs)
                injector = self.session.injector
                if injector is None:
                    return original(module, *args, **kwargs)
                given = self.session.guard("corrupt", injector.forward, module, args, kwargs) or (args, kwargs)
                result = original(module, *given[0], **given[1])
                changed = self.session.guard("corrupt", injector.result, result)
                return result if changed is None else changed
            finally:
                self.depth -= 1
                self.wrapped = None

        module_class.__call__ = call

    def _begins(self, module: Any) -> None:
        """The forward of the model proper: a wrapper (DistributedDataParallel) has brought the buffers of rank 0 to all
        ranks by now, so that what they held before does not matter."""
        self.wrapped = None
        self.session.guard("buffers", self.observer.begins, module)

    def backward(self) -> None:
        """Every backward pass, by `Tensor.backward`, `torch.autograd.backward` or `torch.autograd.grad`."""
        torch = self.torch

        def wrapped(original: Any, *, has_loss: bool) -> Any:
            # Each names its first argument differently, and it may be given by that name.
            @functools.wraps(original)
            def run(*args: Any, **kwargs: Any) -> Any:
                injector = self.session.injector if not self.backwards else None
                if not self.backwards:
                    tensors = args[0] if args else kwargs.get("tensors")
                    one = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
                    # A pass may also begin from an edge of the graph, which has no value.
                    loss = one if has_loss and is_tensor(one) else None
                    if injector is not None:
                        # First: what is recorded is what the pass begins from.
                        self.session.guard("corrupt", injector.backward, loss)
                    self.session.guard("backward", self.observer.backward, loss)
                self.backwards += 1
                try:
                    result = original(*args, **kwargs)
                finally:
                    self.backwards -= 1
                if injector is not None:
                    self.session.guard("corrupt", injector.backward_ended)
                return result

            return run

        torch.Tensor.backward = wrapped(torch.Tensor.backward, has_loss=True)
        torch.autograd.backward = wrapped(torch.autograd.backward, has_loss=True)
        torch.autograd.grad = wrapped(torch.autograd.grad, has_loss=False)
        # TorchScript knows these two by identity, and would compile what it does not know.
        for function, operator in (
            (torch.autograd.grad, "aten::grad"),
            (torch.autograd.backward, "aten::backward"),
        ):
            self.session.guard("jit", lambda f, o: torch.jit._builtins._register_builtin(f, o), function, operator)

    def optimizers(self) -> None:
        """Every optimizer as it is made, and every step, also one whose forward and backward run in a closure."""
        optimizer_class = self.torch.optim.Optimizer
        add_group = optimizer_class.add_param_group

        @functools.wraps(add_group)
        def add_param_group(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            self.session.guard("optimizer", self.observer.knows, "optimizer", optimizer)
            return add_group(optimizer, *args, **kwargs)

        optimizer_class.add_param_group = add_param_group

        zero_grad = optimizer_class.zero_grad

        @functools.wraps(zero_grad)
        def cleared(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            # Of a step that is left out nothing else is to be seen.
            if self.observer.moved and not self.backwards:
                order = self.session.guard("step", self.observer.leave_out)
                if isinstance(order, BaseException):
                    raise order
            return zero_grad(optimizer, *args, **kwargs)

        optimizer_class.zero_grad = cleared

        def before(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
            if not callable(closure):
                self._step(optimizer)
                return None
            first = True

            # What the step consumes is computed inside the closure: look once it has run. Some optimizers run it
            # again and again within one step (LBFGS): what that leaves belongs to no step.
            def around() -> Any:
                nonlocal first
                result = closure()
                if first:
                    first = False
                    self._step(optimizer)
                else:
                    self.observer.forget()
                return result

            if "closure" in kwargs:
                return args, {**kwargs, "closure": around}
            return (args[0], around, *args[2:]), kwargs

        # Where the step itself is compiled, dynamo would trace the probe; an attribute, so as not to import dynamo.
        before._torchdynamo_disable = True  # type: ignore[attr-defined]

        from torch.optim.optimizer import register_optimizer_step_pre_hook

        register_optimizer_step_pre_hook(before)

    def _step(self, optimizer: Any) -> None:
        order = self.session.guard("step", self.observer.before_step, optimizer)
        if isinstance(order, BaseException):
            raise order

    def scalers(self) -> None:
        """`GradScaler.step` may leave the optimizer's step out: it is a step all the same."""
        scaler_class = self.torch.amp.GradScaler
        scale, step, init = scaler_class.scale, scaler_class.step, scaler_class.__init__

        @functools.wraps(init)
        def made(scaler: Any, *args: Any, **kwargs: Any) -> None:
            init(scaler, *args, **kwargs)
            self.session.guard("scaler", self.observer.knows, "scaler", scaler)

        @functools.wraps(scale)
        def scaled(scaler: Any, outputs: Any) -> Any:
            product = scale(scaler, outputs)
            # It may be given several losses; only one alone can be told apart later.
            if is_tensor(outputs):
                self.session.guard("scale", self.observer.scaled, outputs, product)
            return product

        @functools.wraps(step)
        def stepped(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if self.observer.moved:
                self._step(optimizer)
            return step(scaler, optimizer, *args, **kwargs)

        scaler_class.__init__, scaler_class.scale, scaler_class.step = made, scaled, stepped

    def averages(self) -> None:
        """Averaged models as they are made."""
        average_class = self.torch.optim.swa_utils.AveragedModel
        init = average_class.__init__

        @functools.wraps(init)
        def made(average: Any, *args: Any, **kwargs: Any) -> None:
            init(average, *args, **kwargs)
            self.session.guard("average", self.observer.knows, "average", average)

        average_class.__init__ = made

    def loaders(self) -> None:
        """The iterators of data loaders: when one begins, which rows it asks for, what it hands out."""
        iterator_class = self.torch.utils.data.dataloader._BaseDataLoaderIter
        reset, ask, following = iterator_class._reset, iterator_class._next_index, iterator_class.__next__
        loading, guard = self.observer.loading, self.session.guard

        @functools.wraps(reset)
        def begin(iterator: Any, *args: Any, **kwargs: Any) -> Any:
            guard("loading", loading.begins, iterator)
            return reset(iterator, *args, **kwargs)

        @functools.wraps(ask)
        def asked(iterator: Any) -> Any:
            index = ask(iterator)
            guard("loading", loading.asks, iterator, index)
            return index

        @functools.wraps(following)
        def draw(iterator: Any) -> Any:
            guard("loading", loading.draws, iterator)
            batch = following(iterator)
            guard("loading", loading.hands_out, iterator, batch)
            return batch

        iterator_class._reset, iterator_class._next_index, iterator_class.__next__ = begin, asked, draw

    def process_groups(self) -> None:
        """Stop before the first collective, and learn the rank of a process whose environment does not tell it."""
        distributed = self.torch.distributed
        if not distributed.is_available():
            return
        from torch.distributed import distributed_c10d

        original = distributed_c10d.init_process_group

        @functools.wraps(original)
        def init_process_group(*args: Any, **kwargs: Any) -> Any:
            begun = self.session.guard("rank", self._begin_rank, *args, **kwargs)
            self.session.guard("meeting", self._tell_meeting, *args, **kwargs)
            if begun and self.session.gate is not None:
                order = self.session.guard("start", self.session.gate.arrive, "start", self.observer.steps)
                if isinstance(order, BaseException):
                    raise order
            result = original(*args, **kwargs)
            self.session.guard("rank", self._learn_rank, distributed)
            if self.session.forked and (told := os.environ.get("CHAOSKIT_CAPTURES")):
                self.session.guard("captures", capture, json.loads(told), distributed.group.WORLD)
            return result

        distributed_c10d.init_process_group = init_process_group
        distributed.init_process_group = init_process_group
        mesh = sys.modules.get("torch.distributed.device_mesh")
        if mesh is not None and hasattr(mesh, "init_process_group"):
            mesh.__dict__["init_process_group"] = init_process_group

    def _begin_rank(
        self, backend: Any = None, init_method: Any = None, timeout: Any = None, world_size: int = -1, rank: int = -1,
        *_: Any, **__: Any,
    ) -> bool:  # fmt: skip
        """Begin the record where the environment or the arguments tell the rank before the group is made; False where
        neither does."""
        if "RANK" in os.environ:
            return self.session.open()
        return 0 <= rank < world_size and self.session.open(rank=int(rank), world_size=int(world_size))

    def _tell_meeting(self, backend: Any = None, init_method: Any = None, *_: Any, **__: Any) -> None:
        """Where the ranks are told to meet."""
        method = str(init_method or "env://")
        at, port = urlsplit(method).hostname, urlsplit(method).port
        if method.startswith("env://"):
            at, port = os.environ.get("MASTER_ADDR"), int(os.environ.get("MASTER_PORT", "0"))
        self.session.write("meeting", at=at or "", port=port or 0)

    def _learn_rank(self, distributed: Any) -> None:
        if self.session.open(rank=distributed.get_rank(), world_size=distributed.get_world_size()):
            backend, timeout = str(distributed.get_backend()), self.session.guard("group", _timeout, distributed)
            self.session.write("group", backend=backend, timeout=timeout)


def _timeout(distributed: Any) -> float | None:
    """After how many seconds a collective of the default group gives up, where the backend tells."""
    group = distributed.group.WORLD
    found = [group._get_backend(device).options._timeout.total_seconds() for device in group._device_types]
    return min(found, default=None)
