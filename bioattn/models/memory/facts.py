"""Tables of facts and questions, and both as the tensors that a memory network reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from bioattn.errors import FormatError
from bioattn.formats.tables import open_table
from bioattn.models.memory.family import MemoryModelConfig
from bioattn.models.memory.model import PAD
from bioattn.promoters.dataset import SPLIT_NAMES
from bioattn.text import quoted

QUESTIONS = "questions.tsv"
"""The table of questions beside that of facts, unless another is named."""
UNKNOWN = -100
"""Of an answer or a fact that is not told."""


@dataclass(slots=True)
class Story:
    names: list[str] = field(default_factory=list)
    texts: list[list[str]] = field(default_factory=list)
    """Words of each."""
    wheres: list[str] = field(default_factory=list)
    """File and line of each, for messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    name: str
    story: str
    where: str
    """File and line, for messages."""
    words: list[str]
    answer: str
    """Empty where it is not known."""
    true_facts: tuple[int, ...]
    """Places in the story, in the order in which they are needed; empty where they are not known."""
    split: str


@dataclass(frozen=True, slots=True)
class Book:
    facts: Path
    questions: Path
    stories: dict[str, Story]
    asked: list[Question]


def read_book(facts: Path, questions: Path | None) -> Book:
    """Read a table of facts (columns fact, text and, where there are several stories, story) and one of questions
    (question, text and, where they are known, story, answer, facts and split).
    """
    path = facts / "facts.tsv" if facts.is_dir() else facts
    stories: dict[str, Story] = {}
    for where, cells in _rows(path, ("fact", "text"), ("story",)):
        story = stories.setdefault(cells["story"], Story())
        if cells["fact"] in story.names:
            raise FormatError(
                f"{where}: the fact {cells['fact']!r} comes twice in its story; give each one name"
            )
        story.names.append(cells["fact"])
        story.texts.append(_words(cells["text"], where))
        story.wheres.append(where)
    own = questions or path.with_name(QUESTIONS)
    asked = []
    names = set[str]()
    for where, cells in _rows(own, ("question", "text"), ("story", "answer", "facts", "split")):
        if cells["story"] not in stories:
            told = f"the story {cells['story']!r}" if cells["story"] else "this question"
            raise FormatError(
                f"{where}: {path} holds no fact of {told}; its stories are {quoted(list(stories))}"
            )
        if cells["question"] in names:
            raise FormatError(f"{where}: the question {cells['question']!r} comes twice; give each one name")
        names.add(cells["question"])
        known = stories[cells["story"]].names
        true_facts = [each for each in cells["facts"].split(",") if each]
        for each in true_facts:
            if each not in known:
                raise FormatError(
                    f"{where}: names the fact {each!r}, which its story lacks; it has {quoted(known)}"
                )
        if cells["split"] not in ("", *SPLIT_NAMES):
            raise FormatError(f"{where}: split is {cells['split']!r}; give one of {', '.join(SPLIT_NAMES)}")
        asked.append(
            Question(
                name=cells["question"],
                story=cells["story"],
                where=where,
                words=_words(cells["text"], where),
                answer=cells["answer"],
                true_facts=tuple(known.index(each) for each in true_facts),
                split=cells["split"],
            )
        )
    return Book(path, own, stories, asked)


def _rows(path: Path, needed: Sequence[str], more: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """File and line, and the cells of named columns; those of `more` may be lacking.

    The first needed column names what a row holds.
    """
    table = open_table(path)
    places = {name: table.column(name, "a needed column") for name in needed}
    places |= {name: table.header.index(name) for name in more if name in table.header}
    empty = dict.fromkeys(more, "")
    rows = [
        (f"{path}:{line}", empty | {name: cells[place] for name, place in places.items()})
        for line, cells in table.rows()
    ]
    if not rows:
        raise FormatError(f"{path}: holds no {needed[0]}")
    return rows


def _words(text: str, where: str) -> list[str]:
    if not text.split():
        raise FormatError(f"{where}: the text is empty; give words, separated by blanks")
    return text.split()


class Batch(NamedTuple):
    """Questions as tensors."""

    question_BW: Tensor
    facts_BFW: Tensor
    answer_B: Tensor
    """Numbers of answers; `UNKNOWN` where it is not told."""
    true_BK: Tensor
    """Places of the true fact of each hop; `UNKNOWN` where they are not told."""

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(each.to(device) for each in self))


class Reader:
    """The texts of a book as numbers of words that a model knows."""

    def __init__(self, config: MemoryModelConfig, book: Book) -> None:
        self._config = config
        self._number = {word: place for place, word in enumerate(config.words, start=1)}
        self._facts = {}
        for name, story in book.stories.items():
            texts = zip(story.texts, story.wheres, strict=True)
            self._facts[name] = torch.stack([self._read(words, where) for words, where in texts])
        answers = {"": UNKNOWN} | {word: place for place, word in enumerate(config.answers)}
        for each in book.asked:
            if each.answer not in answers:
                raise FormatError(
                    f"{each.where}: the answer {each.answer!r} is that of no training question, so the model "
                    "cannot give it; leave the question out, or train with it"
                )
        self._answers = answers
        self._questions = {each.name: self._read(each.words, each.where) for each in book.asked}

    def _read(self, words: Sequence[str], where: str) -> Tensor:
        """(places,), padded with `PAD`."""
        unknown = next((word for word in words if word not in self._number), None)
        if unknown is not None:
            raise FormatError(
                f"{where}: {unknown!r} stands in no story of the training; leave it out, or train with it"
            )
        if len(words) > self._config.places:
            raise FormatError(
                f"{where}: has {len(words)} words, the longest text of the training {self._config.places}; "
                "shorten it"
            )
        numbers = [self._number[word] for word in words]
        return torch.tensor(numbers + [PAD] * (self._config.places - len(words)))

    def batch(self, asked: Sequence[Question]) -> Batch:
        hops = self._config.hops
        true = [each.true_facts if len(each.true_facts) == hops else (UNKNOWN,) * hops for each in asked]
        return Batch(
            torch.stack([self._questions[each.name] for each in asked]),
            pad_sequence([self._facts[each.story] for each in asked], batch_first=True, padding_value=PAD),
            torch.tensor([self._answers[each.answer] for each in asked]),
            torch.tensor(true),
        )
