"""What models of each family can do, and the one sentence for what they cannot."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from bioattn.errors import BioattnError
from bioattn.inference.runner import (
    CheckableRunner,
    FirstLayerRunner,
    HeadRunner,
    PrunableRunner,
    ResponseRunner,
    with_ability,
)
from bioattn.models.family import load_runner
from bioattn_cli.main import main

CPU = torch.device("cpu")
PROMOTER = {CheckableRunner, FirstLayerRunner, HeadRunner, PrunableRunner, ResponseRunner}


def test_abilities_of_the_families(make_model: Callable[..., Path], trunk: Path) -> None:
    for folder, able in ((make_model(), PROMOTER), (trunk, {HeadRunner})):
        runner = load_runner(folder, CPU)
        for ability in PROMOTER:
            if ability in able:
                assert with_ability(runner, ability, "anything") is runner
                continue
            with pytest.raises(BioattnError, match="models of the family evoformer cannot fly"):
                with_ability(runner, ability, "fly")
            with pytest.raises(BioattnError, match="--fly: models of the family evoformer cannot fly"):
                with_ability(runner, ability, "fly", "--fly")


@pytest.mark.parametrize(
    ("words", "code", "deed"),
    [
        ("explain attribution MODEL PROMOTERS", 1, "be explained base by base"),
        ("explain check MODEL PROMOTERS", 1, "have their attention checked"),
        ("export motifs --model MODEL --promoters PROMOTERS", 1, "show their first layer as motifs"),
    ],
)
def test_a_command_names_the_family_and_what_it_lacks(
    words: str,
    code: int,
    deed: str,
    trunk: Path,
    make_promoters: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths = {"MODEL": str(trunk), "PROMOTERS": str(make_promoters())}
    arguments = [paths.get(word, word) for word in words.split()]
    assert main([*arguments, "-o", str(tmp_path / "out")]) == code
    error = capsys.readouterr().err
    assert f"models of the family evoformer cannot {deed}" in error
    assert "Traceback" not in error
    assert not (tmp_path / "out").exists()
