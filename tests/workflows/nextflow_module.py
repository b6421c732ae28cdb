"""Reads the part of Nextflow's language that our modules are written in, and fills in scripts as Nextflow would.

Nextflow itself cannot be had here, so this is what the modules are tested with. It knows no more than they use:
process sections, `def name = …`, names with dots, strings, `?:`, `? :` and `replace`. Anything else is `NotKnown`,
which fails a test: better than a guess at what Groovy would make of it.

At the end stand the files of the pipeline: all modules, subworkflows, parameters, options of modules.
"""

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any


class NotKnown(Exception):  # noqa: N818 - says what the reader is, not that the module is wrong
    """Something in a module that this reader does not know."""


@dataclass(frozen=True)
class Element:
    """One element of an input or output channel, such as `path("*.html")`."""

    kind: str
    """val, path or eval."""
    text: str
    """What stands in the brackets."""


@dataclass(frozen=True)
class Channel:
    """One input or output."""

    elements: tuple[Element, ...]
    is_tuple: bool
    options: Mapping[str, str]
    """emit, topic, optional."""


@dataclass(frozen=True)
class Block:
    """`script:` or `stub:`: statements before the text, and the text."""

    statements: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Module:
    """One process."""

    path: Path
    process: str
    labels: tuple[str, ...]
    directives: Mapping[str, str]
    inputs: tuple[Channel, ...]
    outputs: tuple[Channel, ...]
    when: str
    script: Block
    stub: Block
    emits: Mapping[str, Channel] = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "emits", {channel.options["emit"]: channel for channel in self.outputs})

    @property
    def input_names(self):
        """Names of all inputs in order, `meta` included."""
        return [element.text for channel in self.inputs for element in channel.elements]


def read_module(path):
    """The one process of a `main.nf`."""
    text = path.read_text()
    if (whole := re.fullmatch(r"process (\w+) \{\n(.*)\n\}\n", text, re.DOTALL)) is None:
        raise NotKnown(f"{path}: is not one process and nothing else")
    first, *rest = re.split(r"^    (input|output|when|script|stub):\n", whole[2], flags=re.MULTILINE)
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    if list(sections) != ["input", "output", "when", "script", "stub"]:
        raise NotKnown(f"{path}: has the sections {list(sections)}")
    directives, labels = {}, []
    for line in filter(None, map(str.strip, first.splitlines())):
        name, value = line.split(" ", 1)
        if name == "label":
            labels.append(value.strip("'"))
        elif name in ("tag", "conda", "container"):
            directives[name] = value
        else:
            raise NotKnown(f"{path}: the directive {line!r}")
    return Module(
        path=path,
        process=whole[1],
        labels=tuple(labels),
        directives=directives,
        inputs=_channels(path, sections["input"]),
        outputs=_channels(path, sections["output"]),
        when=sections["when"].strip(),
        script=_block(path, sections["script"]),
        stub=_block(path, sections["stub"]),
    )


def _channels(path, text):
    return tuple(_channel(path, line.strip()) for line in text.splitlines() if line.strip())


_QUOTED = r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\''


def _channel(path, line):
    if single := re.fullmatch(r"(val|path) (\w+)", line):
        return Channel((Element(*single.groups()),), is_tuple=False, options={})
    if not line.startswith("tuple "):
        raise NotKnown(f"{path}: the channel {line!r}")
    elements, options = [], {}
    rest = line.removeprefix("tuple ")
    while rest:
        if found := re.match(rf"(val|path|eval)\(({_QUOTED}|\w+)\)", rest):
            if options:
                raise NotKnown(f"{path}: {line!r} has options before elements")
            elements.append(Element(found[1], found[2]))
        elif found := re.match(r"(emit|topic|optional): (\w+)", rest):
            options[found[1]] = found[2]
        else:
            raise NotKnown(f"{path}: {rest!r} of the channel {line!r}")
        rest = rest[found.end() :].lstrip(", ")
    return Channel(tuple(elements), is_tuple=True, options=options)


def _block(path, text):
    found = re.fullmatch(r'(.*?)^    """\n(.*?)^    """\s*', text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise NotKnown(f"{path}: a block without one text between three quotes")
    statements = tuple(filter(None, map(str.strip, found[1].splitlines())))
    return Block(statements, found[2])


def fill_in(block, variables):
    """The script of a block as bash gets it, and all variables after its statements."""
    known = dict(variables)
    for statement in block.statements:
        if (found := re.fullmatch(r"(?:def )?(\w+) = (.+)", statement)) is None:
            raise NotKnown(f"the statement {statement!r}")
        known[found[1]] = evaluate(found[2], known)
    return interpolate(textwrap.dedent(block.text), known), known


def interpolate(text, variables):
    """A string between double quotes, its escapes and `$…` replaced."""
    made, place = [], 0
    while place < len(text):
        if text[place] == "\\":
            if text[place + 1] not in '\\$"':
                raise NotKnown(f"the escape {text[place : place + 2]!r}")
            made.append(text[place + 1])
            place += 2
        elif text.startswith("${", place):
            end = _closing(text, place + 1)
            made.append(_shown(evaluate(text[place + 2 : end], variables), text[place : end + 1]))
            place = end + 1
        elif found := re.compile(r"\$([A-Za-z_]\w*(?:\.\w+)*)").match(text, place):
            made.append(_shown(evaluate(found[1], variables), found[0]))
            place = found.end()
        elif text[place] == "$":
            raise NotKnown(f"a bare $ in {text!r}")
        else:
            made.append(text[place])
            place += 1
    return "".join(made)


def _closing(text, opening):
    depth, place = 0, opening
    while place < len(text):
        if quoted := re.compile(_QUOTED).match(text, place):
            place = quoted.end()
            continue
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return place
        place += 1
    raise NotKnown(f"an open bracket in {text!r}")


def _shown(value, where):
    if value is None:
        raise NotKnown(f"{where} has no value")
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


_TOKEN = re.compile(rf"\s*(?:({_QUOTED})|([A-Za-z_]\w*)|(\d+)|(\?:|[?:().,]))")


def evaluate(expression, variables):
    """The value of a Groovy expression of the kind that our modules use."""
    tokens, place = [], 0
    while expression[place:].strip():
        if (found := _TOKEN.match(expression, place)) is None:
            raise NotKnown(f"{expression[place:]!r} in {expression!r}")
        tokens.append(found)
        place = found.end()
    value, used = _conditional(tokens, 0, variables)
    if used != len(tokens):
        raise NotKnown(f"{tokens[used][0]!r} in {expression!r}")
    return value


def _conditional(tokens, at, variables):
    """The value that starts at a token, and the token after it. variables: None only passes over it."""
    value, at = _operand(tokens, at, variables)
    if _sign(tokens, at) == "?:":
        other, at = _conditional(tokens, at + 1, None if value else variables)
        return (value or other), at
    if _sign(tokens, at) == "?":
        yes, at = _conditional(tokens, at + 1, variables if value else None)
        if _sign(tokens, at) != ":":
            raise NotKnown("a ? without its :")
        no, at = _conditional(tokens, at + 1, None if value else variables)
        return (yes if value else no), at
    return value, at


def _operand(tokens, at, variables):
    if at == len(tokens):
        raise NotKnown("an expression that ends early")
    text, name, number, _ = tokens[at].groups()
    value: Any
    if variables is None:
        value = None
    elif text is not None:
        value = interpolate(text[1:-1], variables) if text[0] == '"' else text[1:-1].replace("\\'", "'")
    elif number is not None:
        value = int(number)
    elif name is not None:
        if name not in variables:
            raise NotKnown(f"the name {name}")
        value = variables[name]
    else:
        raise NotKnown(f"{tokens[at][0]!r} where a value should stand")
    at += 1
    while _sign(tokens, at) == ".":
        word = tokens[at + 1].group(2)
        at += 2
        if _sign(tokens, at) == "(":
            arguments, at = _arguments(tokens, at + 1, variables)
            if variables is None:
                continue
            if word != "replace" or not isinstance(value, str) or len(arguments) != 2:
                raise NotKnown(f"the method {word}")
            value = value.replace(*arguments)
        elif variables is None:
            continue
        elif isinstance(value, Mapping) and word in value:
            value = value[word]
        else:
            raise NotKnown(f"the property {word}")
    return value, at


def _arguments(tokens, at, variables):
    values = []
    while _sign(tokens, at) != ")":
        value, at = _conditional(tokens, at, variables)
        values.append(value)
        if _sign(tokens, at) == ",":
            at += 1
    return values, at + 1


def _sign(tokens, at):
    return tokens[at].group(4) if at < len(tokens) else None


ROOT = Path(__file__).resolve().parents[2]
PIPELINE = ROOT / "workflows" / "nextflow"
LOCAL = PIPELINE / "modules" / "local"
SCRIPTS = [PIPELINE / "main.nf", *sorted((PIPELINE / "subworkflows").rglob("main.nf"))]


@cache
def modules():
    """All modules by their folder below `modules/local`, such as `bioattn/preparemsa`."""
    found = sorted(LOCAL.rglob("main.nf"))
    return {path.parent.relative_to(LOCAL).as_posix(): read_module(path) for path in found}


def config_text(name):
    """A config file without its comments."""
    return re.sub(r"^\s*//.*\n", "", (PIPELINE / name).read_text(), flags=re.MULTILINE)


def _params(name):
    (block,) = re.findall(r"^params \{\n(.*?)^\}", config_text(name), re.DOTALL | re.MULTILINE)
    known = {"projectDir": str(PIPELINE)}
    values: dict[str, Any] = {}
    for line in filter(None, map(str.strip, block.splitlines())):
        key, value = (part.strip() for part in line.split("=", 1))
        words = {"null": None, "true": True, "false": False}
        values[key] = words[value] if value in words else evaluate(value, known)
    return values


@cache
def params(*, test):
    """All parameters, as they stand or with those of `-profile test`."""
    return {**_params("nextflow.config"), **(_params("conf/test.config") if test else {})}


def module_args(process, meta):
    """`task.ext.args` of a process under `-profile test`, by conf/modules.config; None where it says nothing."""
    text = config_text("conf/modules.config")
    for name, body in re.findall(r"^    withName: '(\w+)' \{\n(.*?)^    \}", text, re.DOTALL | re.MULTILINE):
        if name == process and (found := re.search(r"ext\.args\s*= \{ (.*) \}$", body, re.MULTILINE)):
            value = evaluate(found[1], {"params": params(test=True), "meta": meta})
            if not isinstance(value, str):
                raise NotKnown(f"ext.args of {process}: {value!r}")
            return value
    return None
