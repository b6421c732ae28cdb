"""Peers for comparison, installed from PyPI into an environment of their own, away from ours."""

import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path

TORCH = "torch==2.13.0"


def peer_environment(folder: Path, peers: Mapping[str, str]) -> tuple[Path, dict[str, str]]:
    """An environment with the peers (import name → requirement): its Python, and why a peer is missing."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    return python, _missing(python, [str(python), "-m", "pip"], {"torch": TORCH, **peers}, TORCH)


def borrowing_environment(folder: Path, peers: Mapping[str, str]) -> tuple[Path, dict[str, str]]:
    """As `peer_environment`, but what our environment has is borrowed and not installed again: seconds.

    What is installed there stays there; a peer must be content with our versions.
    """
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder)
        (ours,) = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        (packages,) = folder.glob("lib/python*/site-packages")
        (packages / "borrowed.pth").write_text(f"import site; site.addsitedir({ours!r})\n", encoding="utf-8")
    return python, _missing(python, [sys.executable, "-m", "pip", "--python", str(python)], peers)


def _missing(python: Path, pip: list[str], peers: Mapping[str, str], *more: str) -> dict[str, str]:
    """Install what cannot be imported; why that failed, by package."""
    missing = {}
    for package, requirement in peers.items():
        if subprocess.run([python, "-c", f"import {package}"], capture_output=True).returncode:
            command = [*pip, "--disable-pip-version-check", "--quiet", "install", requirement, *more]
            installed = subprocess.run(command, capture_output=True, text=True)
            if installed.returncode:
                reason = installed.stderr.strip().splitlines() or ["pip failed"]
                missing[package] = f"not installed: {reason[-1]}"
    return missing
