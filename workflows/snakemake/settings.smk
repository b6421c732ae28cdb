# What both workflows share: reading of settings and tables, and their conversion to options. An error is one sentence:
# the setting, its value, what is wanted.

import csv
import json
import shlex
from difflib import get_close_matches

from snakemake.exceptions import WorkflowError
from snakemake.utils import validate


def read_settings(settings, schema):
    """Fill in the defaults of a JSON schema and check against it; its descriptions say what is wanted."""
    without_nulls(settings)
    check(settings, schema, "config")


def read_table(path, schema):
    """The rows of a tab-separated table with a header, each checked against a JSON schema."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader((line for line in file if line.strip()), delimiter="\t")
            rows = [{name: cell for name, cell in row.items() if cell} for row in table]
    except (OSError, UnicodeDecodeError) as error:
        raise WorkflowError(f"{path}: cannot be read as a table ({error})") from None
    if not rows:
        raise WorkflowError(f"{path}: the table has no rows below its header")
    for number, row in enumerate(rows, start=1):
        extra = row.pop(None, None)
        if extra:
            raise WorkflowError(f"{path}: row {number} has more cells than the header has names")
        check(row, schema, f"{path}: row {number}")
    return rows


def refuse_twice(values, path, name):
    seen = set()
    for value in values:
        if value in seen:
            raise WorkflowError(f"{path}: {name} {value!r} stands there twice; give each row its own")
        seen.add(value)


def without_nulls(settings):
    """A heading with nothing below it is read as null: as if it were not there."""
    for name, value in list(settings.items()):
        if value is None:
            del settings[name]
        elif isinstance(value, dict):
            without_nulls(value)


def check(values, schema, source):
    while True:
        try:
            validate(values, schema)
        except WorkflowError as error:
            if not read_as_number(values, error.__context__):
                raise WorkflowError(sentence(error.__context__, source)) from None
        else:
            return


def read_as_number(values, error):
    """Whether text was found where a number or a truth value belongs, and it is one: then it is put there.

    Snakemake hands over what stands in braces on the command line (--config 'training={epochs: 5}') as text.
    """
    wanted = {"integer": int, "boolean": bool}.get(
        error.validator_value if error.validator == "type" else None
    )
    if wanted is None or not isinstance(error.instance, str):
        return False
    try:
        value = json.loads(error.instance.lower())
    except json.JSONDecodeError:
        return False
    if type(value) is not wanted:
        return False
    *place, name = error.absolute_path
    for part in place:
        values = values[part]
    values[name] = value
    return True


def sentence(error, source):
    """What a jsonschema.ValidationError says, for people."""
    place = ".".join(str(part) for part in error.absolute_path)
    if error.validator == "additionalProperties":
        known = list(error.schema["properties"])
        unknown = next(name for name in error.instance if name not in known)
        near = get_close_matches(str(unknown), known, n=1)
        advice = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
        return f"{source}: unknown setting {join(place, unknown)}; {advice}"
    if error.validator == "required":
        missing = next(name for name in error.validator_value if name not in error.instance)
        return f"{source}: {join(place, missing)} is missing; wanted: {error.schema['properties'][missing]['description']}"
    found = json.dumps(error.instance, default=str)
    return f"{source}: {place} is {found}; wanted: {error.schema['description']}"


def join(place, name):
    return f"{place}.{name}" if place else str(name)


def option(name, value):
    """`name value` for the shell, or nothing where there is no value."""
    return f"{name} {shlex.quote(str(value))}" if value not in (None, "", []) else ""


def minutes(number):
    """More time for each attempt: what was interrupted goes on."""
    return lambda wildcards, attempt: number * attempt


def megabytes(number):
    return lambda wildcards, attempt: number * attempt
