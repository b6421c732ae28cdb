"""Coverage-guided fuzzing of every parser with atheris (`make fuzz MINUTES=60`; `pip install atheris`).

    python tests/faults/fuzz_parsers.py --minutes 60 --work fuzz-work            # every target in turn
    python tests/faults/fuzz_parsers.py --minutes 5 --work fuzz-work gff3 rr     # some

Each target runs in a process of its own with the same share of the time. What is raised other than a refusal, more
than ten seconds or 2 GB for one file ends a target; the file lies in `WORK/finds/`, and the target goes on with
another seed of its random choices as long as it has time. The corpus of `WORK/corpus/` is kept from run to run.
"""

import argparse
import hashlib
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS_PER_FILE = 10
MEGABYTES = 2048
LONGEST = 100_000


def fuzz_one(name: str, arguments: list[str]) -> None:
    """Fuzz one target in this process; libFuzzer ends it."""
    import atheris

    # Only our own code steers: instrumenting numpy or pandas costs more than it tells.
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    path = folder / "x"
    logging.disable(logging.WARNING)
    with atheris.instrument_imports(include=["bioattn", "bioattn_cli", "Bio.PDB"]):
        from tests.faults.targets import TARGETS, parse_safely, seeds_of

        target = TARGETS[name]
        for data in seeds_of(target)[:20]:  # what a target imports while it runs is instrumented, too
            path.write_bytes(data)
            parse_safely(target, path)

    def one(data: bytes) -> None:
        path.write_bytes(data)
        parse_safely(target, path)

    atheris.Setup([sys.argv[0], *arguments], one)
    atheris.Fuzz()


def fuzz_all(names: list[str], seconds: float, work: Path) -> int:
    """Give each target its share of the time; returns how many different finds there were."""
    from tests.faults.targets import TARGETS, seeds_of

    finds = work / "finds"
    finds.mkdir(parents=True, exist_ok=True)
    for name in names:
        corpus = work / "corpus" / name
        corpus.mkdir(parents=True, exist_ok=True)
        for data in seeds_of(TARGETS[name]):
            (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    number = 0
    for name in names:
        number += _share(name, seconds / len(names), work / "corpus" / name, finds)
    return number


def _share(name: str, seconds: float, corpus: Path, finds: Path) -> int:
    """One target until its time is over; one line of what came of it."""
    end = time.monotonic() + seconds
    runs = coverage = attempt = 0
    reasons: dict[str, int] = {}
    while attempt == 0 or end - time.monotonic() > 5:
        attempt += 1
        left = max(5, round(end - time.monotonic()))
        log = finds / f"{name}-{attempt}.log"
        with log.open("w") as output:
            status = subprocess.run(
                [
                    sys.executable,
                    __file__,
                    "--only",
                    name,
                    f"-max_total_time={left}",
                    f"-timeout={SECONDS_PER_FILE}",
                    f"-rss_limit_mb={MEGABYTES}",
                    f"-max_len={LONGEST}",
                    f"-seed={attempt}",
                    "-print_final_stats=1",
                    f"-artifact_prefix={finds / name}-",
                    str(corpus),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=REPOSITORY,
                check=False,
            ).returncode
        text = log.read_text(errors="replace")
        runs += int(
            (re.findall(r"number_of_executed_units: (\d+)", text) or re.findall(r"#(\d+)\t", text) or [0])[-1]
        )
        coverage = max([coverage, *map(int, re.findall(r"cov: (\d+)", text))])
        if status == 0:
            log.unlink()
            break
        raised = re.findall(r"^(\w[\w.]*(?:Error|Exception|Iteration|Warning)\b.*)", text, re.MULTILINE)
        said = re.findall(r"ERROR: libFuzzer: (.*)", text)
        reason = (raised or said or [f"status {status}"])[0][:160]
        reasons[reason] = reasons.get(reason, 0) + 1
        if reasons[reason] > 3:  # the same again and again: nothing else will be found behind it
            break
    print(f"{name}: {runs:,} files, {coverage:,} branches, {len(reasons)} finds", flush=True)  # noqa: T201
    for reason, times in reasons.items():
        print(f"  {reason} ({times} times)", flush=True)  # noqa: T201
    return len(reasons)


def main() -> int:
    """Parse the command line."""
    if sys.argv[1:2] == ["--only"]:
        fuzz_one(sys.argv[2], sys.argv[3:])
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60, help="in total [60]")
    parser.add_argument("--work", type=Path, required=True, help="folder of the corpus and the finds")
    parser.add_argument("targets", nargs="*", help="[all]")
    given = parser.parse_args()
    from tests.faults.targets import TARGETS

    unknown = [name for name in given.targets if name not in TARGETS]
    if unknown:
        parser.error(f"no target {unknown[0]}; there are {', '.join(TARGETS)}")
    return 1 if fuzz_all(given.targets or list(TARGETS), given.minutes * 60, given.work.resolve()) else 0


if __name__ == "__main__":
    sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "cli")]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
