"""`run memory`: answers as a table, and what each hop read as an attention file."""

from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
import torch

from bioattn.attention.capture import capture
from bioattn.inference.attention_receiver import BatchReceiver
from bioattn.io.files import text_output
from bioattn.models.memory.facts import Book, Question, Reader, read_book
from bioattn.models.memory.family import MemoryRun
from bioattn.models.memory.model import FACTS, SITE, load_memory
from bioattn.models.running import Running, RunReport, loaded_model
from bioattn.store.schema import (
    SITES,
    TEXT,
    WEIGHTS,
    AttentionOptions,
    Block,
    Column,
    FileLayout,
    ListColumn,
    Samples,
    site_layout,
)
from bioattn.store.writer import result_file
from bioattn.text import counted, percentage

BATCH = 64
"""Questions of a forward pass."""
TEXTS = "fact_texts"
"""List of the sample table: the facts of the story."""


def run_memory(settings: MemoryRun, running: Running) -> RunReport:
    loaded = loaded_model(settings, running, load_memory)
    model, config = loaded.model, loaded.model.config
    book = read_book(settings.facts, settings.questions)
    reader, number = Reader(config, book), len(book.asked)
    receiver = BatchReceiver(AttentionOptions())
    layout = FileLayout(
        inputs="questions",
        model_sha256=loaded.sha256,
        columns=(Column(FACTS, "int32", "facts of the story"),),
        lists=(ListColumn(TEXTS, TEXT, "fact", FACTS, long_name="the facts"),),
        groups=(
            site_layout(model.site, AttentionOptions(), lengths=[_lengths(book, q) for q in book.asked]),
        ),
    )
    right: list[bool] = []
    with ExitStack() as outputs:
        table = outputs.enter_context(text_output(settings.output))
        hops = [f"hop{hop}\tweight{hop}" for hop in range(1, config.hops + 1)]
        table.write("\t".join(["question", "story", "answer", "probability", *hops, "right"]) + "\n")
        writer = None
        if settings.attention is not None:
            writer = outputs.enter_context(result_file(settings.attention, layout, number, force=True))
        running.progress.begin("questions", number)
        for first in range(0, number, BATCH):
            asked = book.asked[first : first + BATCH]
            batch = reader.batch(asked).to(loaded.device)
            with torch.inference_mode(), capture([SITE], receiver):
                logits_BA = model(batch.question_BW, batch.facts_BFW).logits_BA
            arrays = receiver.take()
            for each, share_A, weights_KF in zip(
                asked, logits_BA.double().softmax(-1).cpu(), arrays[f"{SITES}/{SITE}"][WEIGHTS], strict=True
            ):
                best = int(share_A.argmax())
                cells = [each.name, each.story, config.answers[best], f"{float(share_A[best]):.7g}"]
                for weight_F in weights_KF:
                    top = int(weight_F.argmax())
                    cells += [book.stories[each.story].names[top], f"{weight_F[top]:.7g}"]
                if each.answer:
                    right.append(each.answer == config.answers[best])
                cells.append(["", "no", "yes"][bool(each.answer) + bool(each.answer and right[-1])])
                table.write("\t".join(cells) + "\n")
            if writer is not None:
                writer.append(Block(_samples(book, asked), arrays))
            running.progress.advance(len(asked))
        running.progress.end()
    known = f"; {percentage(float(np.mean(right)), 1)} of {len(right):,} known answers found" if right else ""
    read = [] if settings.attention is None else [settings.attention]
    return RunReport(
        sentences=[
            f"wrote {settings.output}: answers of {counted(number, 'question')}{known}",
            *(f"wrote {path}: what each hop read" for path in read),
        ],
        outputs=[settings.output, *read],
        inputs={"questions": book.questions},
        figures={"questions": number, "known": len(right), "right": sum(right)},
    )


def _lengths(book: Book, question: Question) -> dict[str, int]:
    return {FACTS: len(book.stories[question.story].names)}


def _samples(book: Book, asked: Sequence[Question]) -> Samples:
    numbers = np.array([_lengths(book, each)[FACTS] for each in asked], dtype=np.int32)
    texts = [[" ".join(words) for words in book.stories[each.story].texts] for each in asked]
    return Samples({"id": [each.name for each in asked], FACTS: numbers}, {TEXTS: texts})
