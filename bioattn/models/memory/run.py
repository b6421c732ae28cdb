"""`run memory`: answers as a table, and what each hop read as an attention file."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np
import torch

from bioattn.attention.capture import capture
from bioattn.inference.attention_receiver import BatchReceiver
from bioattn.io.files import text_output
from bioattn.models.memory.facts import Book, Question, Reader, read_book
from bioattn.models.memory.family import MemoryRun
from bioattn.models.memory.model import FACTS, SITE, LoadedMemory, load_memory
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
from bioattn.store.writer import whole_file
from bioattn.text import counted, percentage

BATCH = 64
"""Questions of a forward pass."""
TEXTS = "fact_texts"
"""List of the sample table: the facts of the story."""


def columns_of(loaded: LoadedMemory) -> list[str]:
    """Names of the columns of answers."""
    hops = [name for hop in range(1, loaded.config.hops + 1) for name in (f"hop{hop}", f"weight{hop}")]
    return ["question", "story", "answer", "probability", *hops, "right"]


def layout_of(loaded: LoadedMemory, book: Book) -> FileLayout:
    """The layout of what each hop reads."""
    lengths = [_lengths(book, question) for question in book.asked]
    return FileLayout(
        inputs="questions",
        model_sha256=loaded.sha256,
        columns=(Column(FACTS, "int32", "facts of the story"),),
        lists=(ListColumn(TEXTS, TEXT, "fact", FACTS, long_name="the facts"),),
        groups=(site_layout(loaded.model.site, AttentionOptions(), lengths=lengths),),
    )


def answered(loaded: LoadedMemory, book: Book) -> Iterator[tuple[list[list[str | float]], Block]]:
    """Some questions after the others: cells of their answers, and what each hop reads."""
    config, reader = loaded.config, Reader(loaded.config, book)
    receiver = BatchReceiver(AttentionOptions())
    for first in range(0, len(book.asked), BATCH):
        asked = book.asked[first : first + BATCH]
        batch = reader.batch(asked).to(loaded.device)
        with torch.inference_mode(), capture([SITE], receiver):
            logits_BA = loaded.model(batch.question_BW, batch.facts_BFW).logits_BA
        arrays = receiver.take()
        rows = []
        for each, share_A, weights_KF in zip(
            asked, logits_BA.double().softmax(-1).cpu(), arrays[f"{SITES}/{SITE}"][WEIGHTS], strict=True
        ):
            best = int(share_A.argmax())
            cells: list[str | float] = [each.name, each.story, config.answers[best], float(share_A[best])]
            for weight_F in weights_KF:
                top = int(weight_F.argmax())
                cells += [book.stories[each.story].names[top], float(weight_F[top])]
            right = {True: "yes", False: "no"}[each.answer == config.answers[best]]
            rows.append([*cells, right if each.answer else ""])
        yield rows, Block(_samples(book, asked), arrays)


def run_memory(settings: MemoryRun, running: Running) -> RunReport:
    loaded = loaded_model(settings, running, load_memory)
    book = read_book(settings.facts, settings.questions)
    number = len(book.asked)
    right: list[bool] = []
    with ExitStack() as outputs:
        table = outputs.enter_context(text_output(settings.output))
        table.write("\t".join(columns_of(loaded)) + "\n")
        writer = None
        if settings.attention is not None:
            writer = outputs.enter_context(whole_file(settings.attention, layout_of(loaded, book), number))
        running.progress.begin("questions", number)
        for rows, block in answered(loaded, book):
            for row in rows:
                cells = (f"{cell:.7g}" if isinstance(cell, float) else cell for cell in row)
                table.write("\t".join(cells) + "\n")
            right += [row[-1] == "yes" for row in rows if row[-1]]
            if writer is not None:
                writer.append(block)
            running.progress.advance(len(rows))
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
