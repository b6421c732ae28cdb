"""What docs/formats/msa.md says of the statistics and steps, and the lines of Python it shows."""

import json
import re
from pathlib import Path

from bioattn_cli.main import main

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "formats" / "msa.md").read_text(encoding="utf-8")
FAMILY = "".join(
    f">sp|P6990{i}|HB{i}_X/1-6\nMK{letter}L-{'AG'[i % 2]}\n" for i, letter in enumerate("AVILMF", 1)
)


def test_statistics_and_steps_are_those_of_the_page(tmp_path) -> None:
    source = tmp_path / "in.a3m"
    source.write_text(FAMILY)
    fractions = ("--max-gap-column", "--max-gap-row", "--max-identity")
    options = ["--query", "P69905", *(word for option in fractions for word in (option, "0.9"))]
    options += ["--min-query-identity", "0.1", "--max-depth", "3", "--stats", str(tmp_path / "x.json"), "-q"]
    assert main(["prepare", "msa", str(source), "-o", str(tmp_path / "x.a3m"), *options]) == 0
    written = json.loads((tmp_path / "x.json").read_text())
    told = TEXT.split("## Statistics", 1)[1].split("## Search", 1)[0]
    first_cells = re.findall(r"^\| (`.*?) \|", told, re.MULTILINE)
    assert [name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)] == list(written)
    table = TEXT.split("## The steps", 1)[1].split("\n- ", 1)[0]
    steps = re.findall(r"^\|.*?\| `(\w+)` \|", table, re.MULTILINE)
    assert steps == [step["step"] for step in written["steps"]]
    assert set(written["row_gaps"]) == set(re.findall(r"`(min|q25|median|q75|max)`", told))


def test_the_lines_of_python_run(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    # The content decides what a file is, whatever its name.
    Path("family.sto.gz").write_text(FAMILY)
    (snippet,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(snippet, names)
    assert Path("family.a3m").read_text().startswith(">sp|P69905|HB5_X/1-6\nMKMLG\n")
    assert len(names["weights"]) > 1  # type: ignore[arg-type]
