"""Tables of facts and questions, and both as the tensors that a memory network reads."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from bioattn.choices import SPLIT_NAMES
from bioattn.errors import FormatError
from bioattn.formats.tables import open_table
from bioattn.models.memory.family import MemoryModelConfig
from bioattn.models.memory.model import PAD
from bioattn.text import quoted

QUESTIONS = "questions.tsv"
"""The table of questions beside that of facts, unless another is named."""
UNKNOWN = -100
"""Of an answer or a fact that is not told."""


class Text(NamedTuple):
    words: list[str]
    where: str
    """File and line, for messages."""


class Question(NamedTuple):
    name: str
    story: str
    text: Text
    answer: str
    """Empty where it is not known."""
    true_facts: tuple[int, ...]
    """Places in the story, in the order in which they are needed; empty where they are not known."""
    split: str


class Book(NamedTuple):
    facts: Path
    questions: Path
    stories: dict[str, dict[str, Text]]
    """By story, its facts by name."""
    asked: list[Question]


def read_book(facts: Path, questions: Path | None) -> Book:
    """Read a table of facts (columns fact, text and, where there are several stories, story) and one of questions
    (question, text and, where they are known, story, answer, facts and split).
    """
    path = facts / "facts.tsv" if facts.is_dir() else facts
    stories: dict[str, dict[str, Text]] = {}
    for text, cells in _rows(path, ("fact", "text"), ("story",)):
        story = stories.setdefault(cells["story"], {})
        if story.setdefault(cells["fact"], text) is not text:
            raise FormatError(
                f"{text.where}: the fact {cells['fact']!r} comes twice in its story; give each one name"
            )
    own = questions or path.with_name(QUESTIONS)
    asked: dict[str, Question] = {}
    for text, cells in _rows(own, ("question", "text"), ("story", "answer", "facts", "split")):
        where, name = text.where, cells["question"]
        if cells["story"] not in stories:
            told = f"the story {cells['story']!r}" if cells["story"] else "this question"
            raise FormatError(
                f"{where}: {path} holds no fact of {told}; its stories are {quoted(list(stories))}"
            )
        if name in asked:
            raise FormatError(f"{where}: the question {name!r} comes twice; give each one name")
        known = list(stories[cells["story"]])
        true_facts = [each for each in cells["facts"].split(",") if each]
        for each in true_facts:
            if each not in known:
                raise FormatError(
                    f"{where}: names the fact {each!r}, which its story lacks; it has {quoted(known)}"
                )
        if cells["split"] not in ("", *SPLIT_NAMES):
            raise FormatError(f"{where}: split is {cells['split']!r}; give one of {', '.join(SPLIT_NAMES)}")
        places = tuple(known.index(each) for each in true_facts)
        asked[name] = Question(name, cells["story"], text, cells["answer"], places, cells["split"])
    return Book(path, own, stories, list(asked.values()))


def _rows(path: Path, needed: Sequence[str], more: Sequence[str]) -> Iterator[tuple[Text, dict[str, str]]]:
    """Texts, and the cells of named columns; those of `more` may be lacking.

    The first needed column names what a row holds.
    """
    table = open_table(path)
    places = {name: table.column(name, "a needed column") for name in needed}
    places |= {name: table.header.index(name) for name in more if name in table.header}
    line = 0
    for line, row in table.rows():
        cells = dict.fromkeys(more, "") | {name: row[place] for name, place in places.items()}
        text = Text(cells["text"].split(), f"{path}:{line}")
        if not text.words:
            raise FormatError(f"{text.where}: the text is empty; give words, separated by blanks")
        yield text, cells
    if not line:
        raise FormatError(f"{path}: holds no {needed[0]}")


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
        self._facts = {
            name: torch.stack([self._read(*text) for text in story.values()])
            for name, story in book.stories.items()
        }
        answers = {"": UNKNOWN} | {word: place for place, word in enumerate(config.answers)}
        for each in book.asked:
            if each.answer not in answers:
                raise FormatError(
                    f"{each.text.where}: the answer {each.answer!r} is that of no training question, so the model "
                    "cannot give it; leave the question out, or train with it"
                )
        self._answers = answers
        self._questions = {each.name: self._read(*each.text) for each in book.asked}

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
