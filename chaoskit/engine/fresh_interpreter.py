"""`start_module`: starts a module of chaoskit in an interpreter of its own, to which the caller talks through pipes.

A fresh interpreter has no lock and no thread of this one, as a fork would. It imports the modules that this process
would import, and none from the current directory.
"""

from __future__ import annotations

import os
import subprocess
import sys


def start_module(name: str, *, own_session: bool = False) -> subprocess.Popen[bytes]:
    """Start the module as `python -m` does, with pipes to its standard input and output. With `own_session`, Ctrl-C on
    the terminal does not reach it. Raises OSError."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", name],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=own_session,
    )
