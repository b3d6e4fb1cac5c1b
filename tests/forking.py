"""`lkge` in forks of one process that has imported it: a command begins at once.

`forking.py SOCKET` serves; `program(SOCKET)` is the text of a program that stands for `lkge`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
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
    """Fork for one command after the other. Nothing here starts a thread or learns."""
    import lkge.serve.app
    import lkge.store.consolidation
    import lkge.store.initial
    import lkge.store.relearn
    import lkge.training.warmup  # noqa: F401

    while True:
        asked, _ = listening.accept()
        words, descriptors, _, _ = socket.recv_fds(asked, 1 << 16, 3)
        child = os.fork()
        if not child:
            run(*json.loads(words), descriptors)
        for each in descriptors:
            os.close(each)
        _, status = os.waitpid(child, 0)
        asked.send(str(abs(os.waitstatus_to_exitcode(status))).encode())
        asked.close()


def run(words: list[str], folder: str, descriptors: list[int]) -> None:
    """Be `lkge` with these words, in a folder, with the descriptors as 0, 1 and 2."""
    from lkge.cli import main

    for own, given in enumerate(descriptors):
        os.dup2(given, own)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    os.chdir(folder)
    sys.argv = ["lkge", *words]
    main()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
