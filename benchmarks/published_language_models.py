"""Published language models in bioattn and in transformers: differences of logits and of every attention map.

    python benchmarks/published_language_models.py    # some minutes

Prints Markdown. Models of random weights are saved by transformers and read by bioattn as they lie; two sequences,
one padded.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from common import options, report
from torch import Tensor, nn

from bioattn.attention.capture import capture
from bioattn.models.language.folder import LoadedLanguageModel, load_language_model
from bioattn.sequences.vocabulary import CLS, PAD

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import transformers

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
ESM = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *RESIDUES]
GPT2 = ["<pad>", "<unk>", "<|endoftext|>", *RESIDUES, "X"]
T5 = ["<pad>", "</s>", "<unk>", *(f"▁{each}" for each in RESIDUES), "▁X"]


def random_models(length: int) -> Iterator[tuple[str, nn.Module, list[str]]]:
    """Name, model and tokens."""
    eager = {"attn_implementation": "eager"}
    esm = transformers.EsmConfig(
        vocab_size=33,
        pad_token_id=1,
        mask_token_id=32,
        hidden_size=320,
        num_hidden_layers=6,
        num_attention_heads=20,
        intermediate_size=1280,
        max_position_embeddings=1026,
        position_embedding_type="rotary",
        token_dropout=True,
        **eager,
    )
    yield "ESM-2, shape of 8 M", transformers.EsmForMaskedLM(esm), ESM
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1536}
    bert = transformers.BertConfig(vocab_size=25, max_position_embeddings=length, **sizes, **eager)
    yield "BERT, 6 × 384", transformers.BertForMaskedLM(bert), BERT
    gpt2 = transformers.GPT2Config(
        vocab_size=24,
        n_embd=384,
        n_layer=6,
        n_head=6,
        n_positions=length,
        bos_token_id=2,
        eos_token_id=2,
        **eager,
    )
    yield "GPT-2, 6 × 384", transformers.GPT2LMHeadModel(gpt2), GPT2
    t5 = transformers.T5Config(
        vocab_size=24,
        d_model=384,
        d_kv=64,
        d_ff=1024,
        num_layers=4,
        num_heads=6,
        decoder_start_token_id=0,
        **eager,
    )
    yield "T5, 2 × 4 × 384", transformers.T5ForConditionalGeneration(t5), T5


def differences(
    theirs: nn.Module, loaded: LoadedLanguageModel, rows: list[np.ndarray]
) -> tuple[float, float, float]:
    """Largest differences of logits and of maps, and the standard deviation of the logits."""
    tokens_BL = torch.full((len(rows), max(map(len, rows))), PAD)
    for row, tokens in zip(tokens_BL, rows, strict=True):
        row[: len(tokens)] = torch.from_numpy(tokens)
    shown_BL = tokens_BL != PAD
    order = torch.from_numpy(loaded.vocabulary.order)
    words: dict[str, Any] = {"input_ids": order[tokens_BL].clamp(min=0), "attention_mask": shown_BL.long()}
    both = loaded.config.shape == "encoder-decoder"
    source_BS = tokens_BL if both else None
    if both:
        tokens_BL = F.pad(tokens_BL, (1, -1), value=CLS)
        words["decoder_input_ids"] = order[tokens_BL].clamp(min=0)
    maps: dict[str, Tensor] = {}

    class Receiver:
        def receive(self, site: Any, weights: Tensor, *_: object) -> None:
            maps[site.name] = weights.clone()

    with torch.inference_mode():
        expected = theirs(**words, output_attentions=True)
        with capture(["*"], Receiver()):
            logits_BLV = loaded.model(tokens_BL, source_BS)
    predicted = torch.from_numpy(loaded.vocabulary.of_published)[order] == torch.arange(len(order))
    shown = expected.logits[shown_BL][:, order.clamp(min=0)][:, predicted]
    logits = (logits_BLV[shown_BL][:, : len(order)][:, predicted] - shown).abs().max().item()
    stacks = (
        {loaded.config.shape: expected.attentions}
        if not both
        else {
            "encoder": expected.encoder_attentions,
            "decoder": expected.decoder_attentions,
            "source": expected.cross_attentions,
        }
    )
    assert len(maps) == sum(map(len, stacks.values()))
    largest = max(
        ((maps[f"language.{stack}.{number}"] - layer).abs() * shown_BL[:, None, :, None]).max().item()
        for stack, layers in stacks.items()
        for number, layer in enumerate(layers)
    )
    return logits, largest, shown.std().item()


def random_rows(lengths: list[int], folder: Path) -> list[tuple[object, ...]]:
    found = []
    random = np.random.default_rng(0)
    for length in lengths:
        torch.manual_seed(0)
        for name, theirs, tokens in random_models(length):
            with torch.no_grad():
                for parameter in theirs.parameters():
                    parameter += 0.02 * torch.randn_like(parameter)
            theirs.eval().save_pretrained(folder / "model")
            (folder / "model" / "vocab.txt").write_text("\n".join(tokens))
            loaded = load_language_model(folder / "model", torch.device("cpu"))
            vocabulary = loaded.vocabulary
            letters = ["".join(random.choice(list(RESIDUES), size)) for size in (length - 2, length // 2)]
            rows = [vocabulary.framed(vocabulary.words(each, name)) for each in letters]
            logits, maps, spread = differences(theirs, loaded, rows)
            found.append((name, length, f"{logits:.1e}", f"{maps:.1e}", f"{spread:.2f}"))
            shutil.rmtree(folder / "model")
    return found


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        header = ("model", "tokens", "logits", "maps", "sd of logits")
        rows = random_rows(given.lengths, Path(name))
    report([dict(zip(header, row, strict=True)) for row in rows], given.output)


if __name__ == "__main__":
    main()
