"""`lkge` in forks of one process that has imported it: a command begins at once.

`forking.py SOCKET` serves; `program(SOCKET)` is the text of a program that stands for `lkge`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({place!r})
    words = json.dumps([sys.argv[1:], os.getcwd()]).encode()
    socket.send_fds(server, [words], [0, 1, 2])
    sys.exit(int(server.recv(8) or 1))
"""


@contextmanager
def forking(place: Path, environment: dict[str, str]) -> Iterator[str]:
    """The text of a program that stands for `lkge`, while it is served."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()
        descriptor = str(listening.fileno())
        command = [sys.executable, __file__, descriptor]
        with subprocess.Popen(command, env=environment, pass_fds=[listening.fileno()]) as process:
            try:
                yield PROGRAM.format(python=sys.executable, place=str(place))
            finally:
                process.kill()


def serve(listening: socket.socket) -> None:
    """Fork for each command. Nothing here starts a thread or learns."""
    import lkge.serve.app
    import lkge.store.graph  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        asked, _ = listening.accept()
        words, descriptors, _, _ = socket.recv_fds(asked, 1 << 16, 3)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for own, given in enumerate(descriptors):
                os.dup2(given, own)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            asked.send(str(_done(*json.loads(words))).encode())
            os._exit(0)
        for each in (asked.fileno(), *descriptors):
            os.close(each)
        asked.detach()


def _done(words: list[str], folder: str) -> int:
    """The exit code of a command."""
    from lkge.cli import main

    os.chdir(folder)
    sys.argv = ["lkge", *words]
    code: object = 1
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code if isinstance(code, int) else 1


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
