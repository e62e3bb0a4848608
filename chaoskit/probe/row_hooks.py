"""Hooks into the places where a job takes rows of its data itself: tensors, memory maps, data sets."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaoskit.probe.session import ProbeSession

#: Whether what happens now is outside of the model, and not what a data loader does by itself.
Outside = Callable[[], bool]


def hook_tensors(session: ProbeSession, torch: Any, outside: Outside) -> None:
    """Watch the indexing of tensors, and of data sets by whoever uses no loader."""
    tensor_class = torch.Tensor
    getitem, select = tensor_class.__getitem__, tensor_class.index_select

    @functools.wraps(getitem)
    def indexed(tensor: Any, index: Any) -> Any:
        result = getitem(tensor, index)
        # A subclass may have no memory to read: it may be traced, or lie on several ranks.
        if type(tensor) is tensor_class and outside():
            _took(session, tensor, index, result)
        return result

    @functools.wraps(select)
    def selected(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        result = select(tensor, *args, **kwargs)
        if type(tensor) is tensor_class and len(args) == 2 and args[0] == 0 and outside():
            _took(session, tensor, args[1], result)
        return result

    tensor_class.__getitem__, tensor_class.index_select = indexed, selected
    _hook_copies(session, tensor_class, outside)
    _hook_data_sets(session, torch, outside)


def _hook_copies(session: ProbeSession, tensor_class: Any, outside: Outside) -> None:
    """Watch how tensors get to an accelerator, where rows are not recognized by what they hold."""

    def tell(source: Any, result: Any, *, into: bool) -> None:
        if session.observer is not None:
            session.guard("rows", session.observer.loading.copied, source, result, into=into)

    def moving(original: Any) -> Any:
        @functools.wraps(original)
        def moved(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(tensor, *args, **kwargs)
            if result is not tensor and type(tensor) is tensor_class and type(result) is tensor_class and outside():
                tell(tensor, result, into=False)
            return result

        return moved

    for name in ("to", "cuda"):
        setattr(tensor_class, name, moving(getattr(tensor_class, name)))
    copy = tensor_class.copy_

    @functools.wraps(copy)
    def copied(tensor: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
        result = copy(tensor, source, *args, **kwargs)
        if type(tensor) is tensor_class and type(source) is tensor_class and outside():
            tell(source, tensor, into=True)
        return result

    tensor_class.copy_ = copied


def hook_memory_maps(session: ProbeSession, numpy: Any, outside: Outside) -> None:
    """Watch the indexing of memory maps. (That of an array in memory cannot be watched.)"""
    getitem = numpy.memmap.__getitem__

    @functools.wraps(getitem)
    def indexed(array: Any, index: Any) -> Any:
        result = getitem(array, index)
        if outside() and hasattr(result, "reshape"):
            _took(session, array, index, numpy.asarray(result))
        return result

    numpy.memmap.__getitem__ = indexed


def _took(session: ProbeSession, source: Any, index: Any, result: Any) -> None:
    if session.observer is not None:
        session.guard("rows", session.observer.took, source, index, result)


def _hook_data_sets(session: ProbeSession, torch: Any, outside: Outside) -> None:
    """Watch `__getitem__` of every data set of the job's own; those of torch index other things."""
    data_set = torch.utils.data.Dataset
    own = data_set.__dict__.get("__init_subclass__")

    def subclassed(cls: Any, *args: Any, **kwargs: Any) -> None:
        if own is not None:
            own.__func__(cls, *args, **kwargs)
        else:
            # That of typing.Generic, of which Python makes a built-in method from 3.12 on.
            super(data_set, cls).__init_subclass__(*args, **kwargs)
        getitem = cls.__dict__.get("__getitem__")
        if not callable(getitem) or cls.__module__.partition(".")[0] == "torch":
            return

        @functools.wraps(getitem)
        def item(self: Any, index: Any, *more: Any) -> Any:
            result = getitem(self, index, *more)
            if type(index) is int and outside() and session.observer is not None:
                session.guard("rows", session.observer.taking.fetched, self, index, result)
            return result

        cls.__getitem__ = item

    data_set.__init_subclass__ = classmethod(subclassed)
