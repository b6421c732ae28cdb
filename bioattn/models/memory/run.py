"""A memory network that is ready to run, and `run memory`: answers as a table, and what each hop read as HDF5."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from bioattn.attention.capture import capture
from bioattn.inference.attention_receiver import BatchReceiver
from bioattn.inference.inputs import python_call
from bioattn.io.files import text_output
from bioattn.models.memory.facts import Book, Reader, read_book
from bioattn.models.memory.family import MemoryModelConfig, MemoryRun
from bioattn.models.memory.model import FACTS, SITE, MemoryNetwork
from bioattn.models.model_folder import LoadedModel
from bioattn.models.running import Running, RunReport, tsv
from bioattn.store.contents import Held
from bioattn.store.reader import Attention
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

if TYPE_CHECKING:
    import pandas as pd

BATCH = 64
"""Questions of a forward pass."""
TEXTS = "fact_texts"
"""List of the sample table: the facts of the story."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadedMemory(LoadedModel[MemoryNetwork, MemoryModelConfig]):
    """A memory network: answers of questions about facts, and the fact that each hop reads.

    facts, questions: tables as `run memory` takes them; questions: None = questions.tsv beside the facts.
    """

    family: ClassVar[str] = "memory"

    def predict(self, facts: Path | str, questions: Path | str | None = None) -> "pd.DataFrame":
        """Answer questions: the table of `run memory`, a row per question.

        Raises: FormatError naming the line of a fact or question that cannot be.
        """
        import pandas as pd

        with python_call():
            book = read_book(Path(facts), None if questions is None else Path(questions))
            rows = [row for rows, _ in answered(self, book) for row in rows]
        return pd.DataFrame(rows, columns=columns_of(self)).set_index("question")

    def attention(self, facts: Path | str, questions: Path | str | None = None) -> Attention:
        """Return the weight of each fact at each hop, in memory. Raises: as `predict`."""
        with python_call():
            book = read_book(Path(facts), None if questions is None else Path(questions))
            kept = Held(layout_of(self, book))
            for _, block in answered(self, book):
                kept.append(block)
        return Attention(kept)


def load_memory(folder: Path, device: torch.device) -> LoadedMemory:
    return LoadedMemory.of_folder(folder, device, MemoryModelConfig, MemoryNetwork)


def columns_of(loaded: LoadedMemory) -> list[str]:
    """Names of the columns of answers."""
    hops = [name for hop in range(1, loaded.config.hops + 1) for name in (f"hop{hop}", f"weight{hop}")]
    return ["question", "story", "answer", "probability", *hops, "right"]


def layout_of(loaded: LoadedMemory, book: Book) -> FileLayout:
    """The layout of what each hop reads."""
    lengths = [{FACTS: len(book.stories[question.story])} for question in book.asked]
    return FileLayout(
        inputs="questions",
        model_sha256=loaded.sha256,
        columns=(Column(FACTS, "int32", "facts of the story"),),
        lists=(ListColumn(TEXTS, TEXT, "fact", FACTS, long_name="the facts"),),
        groups=(site_layout(loaded.model.site, AttentionOptions(), lengths=lengths),),
    )


def answered(loaded: LoadedMemory, book: Book) -> Iterator[tuple[list[list[str | float]], Block]]:
    """Some questions after the others: cells of their answers, and what each hop reads."""
    answers, reader = loaded.config.answers, Reader(loaded.config, book)
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
            cells: list[str | float] = [each.name, each.story, answers[best], float(share_A[best])]
            for weight_F in weights_KF:
                top = int(weight_F.argmax())
                cells += [list(book.stories[each.story])[top], float(weight_F[top])]
            right = "yes" if each.answer == answers[best] else "no"
            rows.append([*cells, right if each.answer else ""])
        texts = [[" ".join(text.words) for text in book.stories[each.story].values()] for each in asked]
        numbers = np.array([len(each) for each in texts], dtype=np.int32)
        samples = Samples({"id": [each.name for each in asked], FACTS: numbers}, {TEXTS: texts})
        yield rows, Block(samples, arrays)


def run_memory(settings: MemoryRun, running: Running) -> RunReport:
    loaded = load_memory(settings.model, running.device(settings.device, settings.threads))
    book = read_book(settings.facts, settings.questions)
    number = len(book.asked)
    right: list[bool] = []
    with ExitStack() as outputs:
        table = outputs.enter_context(text_output(settings.output))
        table.write(tsv(columns_of(loaded)))
        writer = None
        if settings.attention is not None:
            writer = outputs.enter_context(
                result_file(settings.attention, layout_of(loaded, book), number, keep=False)
            )
        running.progress.begin("questions", number)
        for rows, block in answered(loaded, book):
            table.writelines(map(tsv, rows))
            right += [row[-1] == "yes" for row in rows if row[-1]]
            if writer is not None:
                writer.append(block)
            running.progress.advance(len(rows))
        running.progress.end()
    known = f"; {percentage(float(np.mean(right)), 1)} of {len(right):,} known answers found" if right else ""
    read = [] if settings.attention is None else [settings.attention]
    return RunReport(
        f"wrote {settings.output}: answers of {counted(number, 'question')}{known}",
        *(f"wrote {path}: what each hop read" for path in read),
        inputs={"questions": book.questions},
        outputs=[settings.output, *read],
        questions=number,
        known=len(right),
        right=sum(right),
    )
