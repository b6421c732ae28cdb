"""Language models beside Hugging Face: all attention maps, reading, training and generation, on one thread.

    python benchmarks/language_speed.py [--rounds 5] [--rows maps reading training generation]

Prints Markdown. Models have random weights, are saved by transformers and read by bioattn as they lie; both take
turns, in processes of their own. Medians over the rounds stand in the tables, with the quartiles of the paired
ratios. Processor seconds are those of the process, user and system. Needs transformers.

maps: ESM-2's shape of 8 million weights. transformers keeps all maps in memory (`output_attentions`); bioattn
hands them on tile by tile and, with `to a file`, writes them as `export attention` does.
reading: the same model; mean embeddings of 200 proteins of 50 to 400 residues, beside transformers in batches of
16, sorted by length; and pseudo-likelihoods of 20 of 100 to 300, beside its masked copies in batches of 32.
training: GPT-2 of 3.2 million weights, 16 windows of 256 tokens a step. bioattn's step is that of the product:
windows drawn from a dataset, gradients clipped, AdamW, the average of weights. That of transformers is its model,
clipping and AdamW, on one batch that is there.
generation: the same GPT-2, the likeliest token each time; tokens of both must be equal.
"""

import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from common import options, run, table
from processes import in_own_process, peak_above, processor

LENGTHS = (512, 1024, 2048)
BATCH, WINDOW = 16, 256
NEW = 200
"""Tokens that are generated."""
PROMPT = "MKV"
RESIDUES = "ACDEFGHIKLMNPQRSTVWY"


def make_models(folder: Path) -> None:
    import torch
    import transformers
    from published_language_models import ESM, GPT2, random_models

    torch.manual_seed(0)
    _, esm, _ = next(random_models(WINDOW))
    gpt2 = transformers.GPT2LMHeadModel(gpt2_config())
    with torch.no_grad():
        for parameter in (*esm.parameters(), *gpt2.parameters()):
            parameter += 0.02 * torch.randn_like(parameter)
        # No sequence is to end early: the channels before the output lie far from the token that ends one.
        gpt2.transformer.ln_f.bias += 2.0
        gpt2.transformer.wte.weight[2] -= 2.0
    for name, model, tokens in (("esm", esm, ESM), ("gpt2", gpt2, GPT2)):
        model.save_pretrained(folder / name)
        (folder / name / "vocab.txt").write_text("\n".join(tokens))
    draw = random.Random(0)
    for length in LENGTHS:
        letters = "".join(draw.choices(RESIDUES, k=length - 2))
        (folder / f"{length}.fa").write_text(f">protein\n{letters}\n")
    (folder / "genome.fa").write_text(f">genome\n{''.join(draw.choices('ACGT', k=400_000))}\n")
    run(f"prepare language {folder}/genome.fa --split position -o {folder}/genome.dataset.h5 -q")


def gpt2_config() -> Any:
    """GPT-2, 4 × 256."""
    import transformers

    return transformers.GPT2Config(
        vocab_size=24, n_embd=256, n_layer=4, n_head=4, n_positions=WINDOW, bos_token_id=2, eos_token_id=2
    )


def measured(work: Callable[[], Any], repeats: int = 1) -> dict[str, Any]:
    """Wall and processor seconds of each call, and what the last one returned."""
    began, spent = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        result = work()
    wall, cpu = time.perf_counter() - began, time.process_time() - spent
    return {"wall": wall / repeats, "cpu": cpu / repeats, "result": result}


def maps(folder: Path, who: str, length: int) -> dict[str, Any]:
    """All maps of one sequence; memory is what the process has at most, less what it had before."""
    import torch

    from bioattn.attention.capture import capture
    from bioattn.attention.site import MapTiles
    from bioattn.inference.run import write_attention_file
    from bioattn.models.attention_settings import ExportAttention
    from bioattn.models.language.attention import attention_work
    from bioattn.models.language.folder import load_language_model
    from bioattn.models.language.source import read_tokens
    from bioattn.system.progress import SILENT

    class Sums:
        """Takes each tile and looks at it."""

        rows = 0.0

        def receive(self, _site: Any, weights: Any, *_: object) -> None:
            self.rows += float(weights.sum())

    loaded = load_language_model(folder / "esm", torch.device("cpu"))
    theirs = None
    if who.startswith("transformers"):
        import transformers

        kind = "eager" if who == "transformers" else "sdpa"
        theirs = transformers.EsmForMaskedLM.from_pretrained(folder / "esm", attn_implementation=kind).eval()

    def maps_of(length: int) -> float:
        path = folder / f"{length}.fa"
        if who == "bioattn, to a file":
            output = folder / f"{length}.h5"
            settings = ExportAttention(model=folder / "esm", sequences=path, output=output, force=True)
            work = attention_work(loaded, path, settings.options(), window=None, batch_size=None)
            write_attention_file(settings, SimpleNamespace(progress=SILENT), *work)
            return 0.0
        tokens_1L = read_tokens(path, loaded.vocabulary, length).padded()
        with torch.inference_mode():
            if theirs is not None:
                ids = torch.from_numpy(loaded.vocabulary.order)[tokens_1L]
                found = theirs(ids, output_attentions=who == "transformers")
                return sum(float(each.sum()) for each in found.attentions or ())
            receiver = Sums()
            with capture(["*"] if who == "bioattn" else [], receiver, tiles=MapTiles(None)):
                loaded.model(tokens_1L)
            return receiver.rows

    maps_of(LENGTHS[0])
    found: dict[str, Any] = {}
    memory = peak_above(lambda: found.update(measured(lambda: maps_of(length))))
    (folder / f"{length}.h5").unlink(missing_ok=True)
    return {**found, "memory": memory}


def reading(folder: Path, who: str, number: int) -> dict[str, Any]:
    """Mean embeddings of 200 proteins, or pseudo-likelihoods of 20; a few of them are read before."""
    import torch
    import transformers

    from bioattn.models.language.folder import load_language_model

    draw = random.Random(number)
    bounds = (50, 400) if number == 200 else (100, 300)
    letters = ["".join(draw.choices(RESIDUES, k=draw.randint(*bounds))) for _ in range(number)]
    loaded = load_language_model(folder / "esm", torch.device("cpu"))
    theirs = transformers.EsmForMaskedLM.from_pretrained(folder / "esm", attn_implementation="sdpa").eval()
    tokenizer = transformers.EsmTokenizer(folder / "esm" / "vocab.txt")

    def ours(some: list[str]) -> Any:
        return loaded.embed(some) if number == 200 else loaded.predict(some)

    def embeddings(some: list[str]) -> Any:
        ordered, means = sorted(some, key=len), []
        for first in range(0, len(ordered), 16):
            batch = tokenizer(ordered[first : first + 16], return_tensors="pt", padding=True)
            states = theirs.esm(**batch).last_hidden_state
            residues = batch["attention_mask"].clone()
            residues[:, 0] = 0
            residues[torch.arange(len(residues)), residues.sum(1)] = 0
            means.append((states * residues[..., None]).sum(1) / residues.sum(1, keepdim=True))
        return torch.cat(means)

    def likelihoods(some: list[str]) -> Any:
        found = []
        for each in some:
            ids = tokenizer(each, return_tensors="pt")["input_ids"].expand(len(each), -1)
            place = torch.arange(len(each))
            masked = ids.clone()
            masked[place, place + 1] = tokenizer.mask_token_id
            parts = [theirs(input_ids=part).logits for part in masked.split(32)]
            logits = torch.cat(
                [
                    part[torch.arange(len(part)), place[32 * n : 32 * n + len(part)] + 1]
                    for n, part in enumerate(parts)
                ]
            )
            found.append(logits.log_softmax(-1)[place, ids[place, place + 1]].sum())
        return torch.stack(found)

    theirs_of = embeddings if number == 200 else likelihoods
    work = ours if who == "bioattn" else theirs_of
    with torch.inference_mode():
        work(letters[:4])
        if who == "bioattn":  # of the same proteins both must say the same
            few = sorted(letters[:4], key=len)
            said = ours(few).to_numpy() if number == 200 else ours(few)["log_likelihood"].to_numpy()
            assert abs(said - theirs_of(few).numpy()).max() < 1e-2 * abs(said).max()
        found = measured(lambda: work(letters))
    return {**found, "result": None}


def training(folder: Path, who: str, steps: int) -> dict[str, Any]:
    """Seconds of a step."""
    import torch

    if who == "bioattn":
        from bioattn.models.family import family
        from bioattn.system.progress import SILENT
        from bioattn.system.signals import StopRequest
        from bioattn.training.distributed import ALONE
        from bioattn.training.trainer import Trainer

        (folder / "gpt2.toml").write_text(
            f'[model]\nshape = "decoder"\npositions = "learned"\nlayers = 4\nchannels = 256\nnum_heads = 4\n'
            f"hidden_channels = 1024\ncontext = {WINDOW}\n[training]\nbatch_size = {BATCH}\n"
        )
        language = family("language")
        settings = language.settings["train"](
            dataset=folder / "genome.dataset.h5", output=folder / "model", config=folder / "gpt2.toml"
        )
        task = language.task(settings, torch.device("cpu"))
        task.prepare(SILENT)
        trainer = Trainer(
            task=task, job={}, state_path=None, progress=SILENT, stop=StopRequest(), processes=ALONE
        )
        trainer._begin_stage()
        steps_of = trainer.rounds[0]

        def step() -> None:
            trainer._take_step(steps_of.step(trainer.position.step))

    else:
        import transformers

        config = gpt2_config()
        if who != "transformers":
            config.activation_function = "gelu_pytorch_tanh"
        model = transformers.GPT2LMHeadModel(config).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.1)
        tokens = torch.randint(3, 24, (BATCH, WINDOW))

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            model(tokens, labels=tokens).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    for _ in range(2):
        step()
    return measured(step, steps)


def generation(folder: Path, who: str, batch: int) -> dict[str, Any]:
    """Seconds of a token; the tokens."""
    import torch

    from bioattn.models.language.folder import load_language_model
    from bioattn.models.language.generation import drawn_texts

    loaded = load_language_model(folder / "gpt2", torch.device("cpu"))
    vocabulary = loaded.vocabulary
    prompt = vocabulary.framed(vocabulary.words(PROMPT, "prompt"))[: vocabulary.begins + len(PROMPT)]
    order = torch.from_numpy(vocabulary.order)
    ids = order[torch.from_numpy(prompt)].repeat(batch, 1)
    if who == "transformers":
        import transformers

        model = transformers.GPT2LMHeadModel.from_pretrained(folder / "gpt2").eval()
        never = [2, *(number for number in range(24) if number not in order[vocabulary.written].tolist())]
        settings = {"do_sample": False, "suppress_tokens": never, "pad_token_id": 0}

        def write(new: int) -> list[int]:
            with torch.inference_mode():
                made = model.generate(ids, min_new_tokens=new, max_new_tokens=new, **settings)
            return made[0, ids.shape[1] :].tolist()

    else:

        def write(new: int) -> list[int]:
            text = next(drawn_texts(loaded, [prompt], batch, len(PROMPT) + new, 0, 1.0, 0))
            return order[torch.from_numpy(vocabulary.words(text[len(PROMPT) :], "what is written"))].tolist()

    write(8)
    found = measured(lambda: write(NEW))
    assert len(found["result"]) == NEW
    return {**found, "wall": found["wall"] / NEW / batch, "cpu": found["cpu"] / NEW / batch}


ROWS: dict[str, tuple[Callable[..., dict[str, Any]], dict[str, tuple[int, ...]]]] = {
    "maps": (
        maps,
        {
            "transformers": LENGTHS,
            "transformers, no maps": LENGTHS,
            "bioattn": LENGTHS,
            "bioattn, no maps": LENGTHS,
            "bioattn, to a file": LENGTHS,
        },
    ),
    "reading": (reading, dict.fromkeys(("transformers", "bioattn"), (200, 20))),
    "training": (training, dict.fromkeys(("transformers", "transformers, fused GELU", "bioattn"), (5,))),
    "generation": (generation, {"transformers": (1, 8), "bioattn": (1, 8)}),
}


def rounds(folder: Path, row: str, number: int) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """What each round measured, by who and size; all take turns."""
    sizes = [(who, size) for who, sizes in ROWS[row][1].items() for size in sizes]
    found: dict[tuple[str, int], list[dict[str, Any]]] = {each: [] for each in sizes}
    for turn in range(number):
        for who, size in sizes if turn % 2 == 0 else reversed(sizes):
            found[who, size].append(in_own_process(__file__, "--child", row, who, size, folder))
    return found


def row_table(row: str, found: dict[tuple[str, int], list[dict[str, Any]]]) -> str:
    """Medians, and the ratio to transformers of the same round and size."""
    tokens = BATCH * WINDOW if row == "training" else 1
    rows = []
    for (who, size), each in found.items():
        wall, cpu = (statistics.median(one[key] for one in each) for key in ("wall", "cpu"))
        ratios = sorted(a["cpu"] / b["cpu"] for a, b in zip(found["transformers", size], each, strict=True))
        low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
        if row in ("maps", "reading"):
            memory = statistics.median(one.get("memory", 0) for one in each) / 1e6
            cells = [f"{wall:.2f}", f"{cpu:.2f}", f"{memory:,.0f} MB" if memory else ""]
        else:
            cells = [f"{tokens / wall:,.0f}", f"{tokens / cpu:,.0f}"]
        rows.append([who, f"{size:,}", *cells, f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})"])
    rates = (
        ["seconds", "CPU seconds", "memory"]
        if row in ("maps", "reading")
        else ["tokens per second", "per core-second"]
    )
    return table(
        [row, "length, number, steps or batch", *rates, "CPU of transformers over this (quartiles)"], rows
    )


def main() -> None:
    parser = options(__doc__, output=False)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--child", nargs=4, help="a measurement: row, who, size, folder")
    given = parser.parse_args()
    if given.child:
        row, who, size, folder = given.child
        print(json.dumps(ROWS[row][0](Path(folder), who, int(size))))
        return
    with tempfile.TemporaryDirectory(prefix="language-speed-") as name:
        make_models(Path(name))
        print(f"{processor()}, {os.cpu_count()} cores, one thread.")
        for row in given.rows:
            load = os.getloadavg()[0]
            found = rounds(Path(name), row, given.rounds)
            print(f"\nLoad of the machine: {load:.1f} before, {os.getloadavg()[0]:.1f} after.\n")
            print(row_table(row, found), flush=True)
            if row == "generation":
                same = len({tuple(each[0]["result"]) for each in found.values()}) == 1
                print(f"Tokens of both: {'equal' if same else 'DIFFERENT'}.")


if __name__ == "__main__":
    main()
