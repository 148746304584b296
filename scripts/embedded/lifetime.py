"""A server must not outlive the program that started it for itself, however that program ends."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent(parent_pid: int) -> None:
    """This process gets SIGTERM when the thread of process `parent_pid` that started it ends. Holds across exec.

    Raises ProcessLookupError if that process has ended already.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent_pid:
        raise ProcessLookupError(f"process {parent_pid}, for which this server was started, has ended")
