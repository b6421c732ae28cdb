"""Programs without the seconds that their imports take: a server that has made them forks for every call.

`ForkedProgram` starts the server (this file, run by the program's own Python) and writes a small script that
stands on the PATH for the program. The script sends its arguments, environment, folder and standard streams to the
server, passes on the signals that it gets, and ends as the forked process does; when it is killed, so is that one.
"""

import array
import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
_SCRIPT = """#!{python} -IS
import array, json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
call = json.dumps([sys.argv, dict(os.environ), os.getcwd()]).encode()
streams = array.array("i", [0, 1, 2])
server.sendmsg([len(call).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
server.sendall(call)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda number, _: server.send(bytes([number])))
status = int.from_bytes(server.recv(4), "big", signed=True)
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


class ForkedProgram:
    """A server and a script that calls it, to be used in `with`."""

    def __init__(
        self, script: Path, function: str, modules: Sequence[str], python: str = sys.executable
    ) -> None:
        """script: where the program shall stand. function: `module:function`, which runs it. modules: what the
        server imports (`import_all`). python: the interpreter.
        """
        self._folder = tempfile.TemporaryDirectory(
            prefix="programs-"
        )  # the address of a socket must be short
        address = str(Path(self._folder.name) / "socket")
        script.write_text(_SCRIPT.format(python=python, address=address))
        script.chmod(0o755)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        listener.listen(16)
        self._server = subprocess.Popen(
            [python, __file__, str(listener.fileno()), function, *modules],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'cli'}"},
        )
        listener.close()

    def __enter__(self) -> "ForkedProgram":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()
        self._folder.cleanup()


def serve(listener: socket.socket, function: str, modules: Sequence[str]) -> None:
    """Fork for every call until stdin is closed."""
    import_all(modules)
    module, _, name = function.partition(":")
    program = getattr(importlib.import_module(module), name)
    gc.freeze()
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        call, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _answer(call, program)
        call.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    with contextlib.suppress(ChildProcessError):
        while os.wait():
            pass


def import_all(modules: Sequence[str]) -> None:
    """Import modules; `name.*` stands for a package and all that is in it."""
    for name in modules:
        package = importlib.import_module(name.removesuffix(".*"))
        if name.endswith(".*"):
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                if not module.name.endswith("__main__"):
                    importlib.import_module(module.name)


def _answer(call: socket.socket, program: Any) -> None:
    """Run the program in another process and pass signals and its end on; never returns."""
    streams = array.array("i")
    header, rights, _, _ = call.recvmsg(8, socket.CMSG_LEN(3 * streams.itemsize))
    streams.frombytes(rights[0][2])
    content = b""
    while len(content) < int.from_bytes(header, "big"):
        content += call.recv(1 << 16)
    child = os.fork()
    if child == 0:
        call.close()
        _run(program, *json.loads(content), streams)
    for stream in (*streams, 0, 1, 2):
        os.close(stream)
    handle = os.pidfd_open(child)
    while handle not in (ready := select.select([handle, call], [], [])[0]):
        assert ready == [call]
        number = call.recv(1)
        os.killpg(child, number[0] if number else signal.SIGKILL)
        if not number:
            os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        call.sendall(status.to_bytes(4, "big", signed=True))
    os._exit(0)


def _run(
    program: Any, arguments: list[str], environment: dict[str, str], folder: str, streams: Sequence[int]
) -> None:
    """Be the program; never returns."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    code: object = 1
    try:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = arguments
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        code = program() or 0
    except SystemExit as stop:
        code = stop.code or 0
    except BaseException:  # noqa: BLE001 - as the interpreter would: shown, and exit code 1
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], sys.argv[3:])
