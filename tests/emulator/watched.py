"""Runs ministack as this process, and ends with whoever started it, however that ended."""

from __future__ import annotations

import os
import runpy
import signal
import threading
import time

SECONDS = 0.5


def watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS)
    # This process leads its group: what it started goes as well.
    os.killpg(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=watch, args=(os.getppid(),), daemon=True).start()
    runpy.run_module("ministack", run_name="__main__", alter_sys=True)
