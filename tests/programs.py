"""Programs without the seconds that their imports take: a server that has made them forks for every call.

`ForkServer` starts the server (this file, run by the programs' own Python); `program` writes a small script that
stands on the PATH for a program. The script sends its arguments, environment, folder, limit of a file's size and
standard streams to the server, passes on the signals that it gets, and ends as the forked process does; when the
script is killed, so is that process.
"""

import array
import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import resource
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import weakref
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
BIOATTN = (
    *("bioattn.*", "bioattn_cli.*"),
    # What commands import when they are called: torch's optimisers the first, which takes a second and a half.
    *("torch._dynamo", "anndata.io", "matplotlib.pyplot", "matplotlib.backends.backend_pdf"),
    *("matplotlib.backends.backend_svg", "matplotlib.style.core", "ipykernel.kernelapp"),
    "typer._adapters",  # pydantic, most of the time of a short command
)
"""What programs of bioattn need."""
_SCRIPT = """#!{python} -IS
import array, json, os, resource, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
limit = resource.getrlimit(resource.RLIMIT_FSIZE)
call = json.dumps([{function!r}, sys.argv, dict(os.environ), os.getcwd(), limit]).encode()
streams = array.array("i", [0, 1, 2])
server.sendmsg([len(call).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
server.sendall(call)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda number, _: server.send(bytes([number])))
status = int.from_bytes(server.recv(4), "big", signed=True)
if status < 0:
    if -status != signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


class ForkServer:
    """The server, which ends with the process that owns it."""

    def __init__(self, modules: Sequence[str], owner: int, python: str = sys.executable) -> None:
        """modules: what the server imports (`import_all`). owner: its process number. python: the interpreter."""
        self._python = python
        # The address of a socket must be short.
        self._address = str(Path(tempfile.mkdtemp(prefix="programs-")) / "socket")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self._address)
        listener.listen(16)
        subprocess.Popen(
            [python, __file__, str(listener.fileno()), str(owner), *modules],
            stdin=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'cli'}"},
        )
        listener.close()

    def program(self, script: Path, function: str) -> None:
        """Write a script that calls `module:function` in a process of its own."""
        script.write_text(_SCRIPT.format(python=self._python, address=self._address, function=function))
        script.chmod(0o755)


def python() -> None:
    """`python -c CODE …` and `python -m MODULE …`."""
    _, option, what, *rest = sys.argv
    sys.argv = [option, *rest]
    if option == "-c":
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_module(what, run_name="__main__", alter_sys=True)


def serve(listener: socket.socket, owner: int, modules: Sequence[str]) -> None:
    """Fork for every call until the owner has ended."""
    ended = os.pidfd_open(owner)
    import_all(modules)
    gc.freeze()
    # torch's operators, which no program has to take down at its end
    for callback in weakref.finalize._registry:
        callback.atexit = False
    while ended not in select.select([listener, ended], [], [])[0]:
        call, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _answer(call)
        call.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    shutil.rmtree(Path(listener.getsockname()).parent)


def import_all(modules: Sequence[str] = BIOATTN) -> None:
    """Import modules; `name.*` stands for a package and all that is in it."""
    for name in modules:
        package = importlib.import_module(name.removesuffix(".*"))
        if name.endswith(".*"):
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                if not module.name.endswith("__main__"):
                    importlib.import_module(module.name)


def _answer(call: socket.socket) -> None:
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
        _run(streams, *json.loads(content))
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
    streams: Sequence[int],
    function: str,
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
    file_size: tuple[int, int],
) -> None:
    """Be the program; never returns."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    code: object = 1
    try:
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_FSIZE, file_size)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = arguments
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        module, _, name = function.partition(":")
        code = getattr(importlib.import_module(module), name)() or 0
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
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3:])
