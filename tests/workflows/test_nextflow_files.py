"""Nextflow's files agree with each other: metadata with modules, calls with inputs, parameters with their schema.

What nf-core's linter would say, as far as it can be said without Nextflow.
"""

import csv
import json
import re

import pytest
import yaml

from bioattn import __version__
from tests.workflows.nextflow_module import LOCAL, PIPELINE, SCRIPTS, config_text, modules, params

SCHEMA = json.loads((PIPELINE / "nextflow_schema.json").read_text())
NAMES = sorted(modules())
LABELS = {"process_single", "process_low", "process_medium", "process_gpu"}


def metadata(module):
    return yaml.safe_load((module.path.parent / "meta.yml").read_text())


def key(element):
    """What nf-core calls an element of an output: the text between the quotes."""
    return element.text[1:-1] if element.text[0] in "\"'" else element.text


def described(channel, entry):
    """Elements of a channel in meta.yml: tuples are lists, single elements stand alone."""
    assert isinstance(entry, list) == channel.is_tuple
    return [next(iter(each.items())) for each in (entry if isinstance(entry, list) else [entry])]


@pytest.mark.parametrize("name", NAMES)
def test_a_module_is_named_as_nf_core_names_it(name):
    """Tool or tool/subtool, small letters without marks; the process is the same in capitals."""
    module = modules()[name]
    assert re.fullmatch(r"[a-z]+(/[a-z]+)?", name)
    assert module.process == name.replace("/", "_").upper()
    assert metadata(module)["name"] == name.replace("/", "_")
    assert set(module.labels) <= LABELS
    assert len(set(module.labels) - {"process_gpu"}) == 1
    assert module.when == "task.ext.when == null || task.ext.when"
    assert module.directives["tag"] == '"$meta.id"'
    assert module.directives["conda"] == '"${moduleDir}/environment.yml"'
    assert "def args = task.ext.args ?: ''" in module.script.statements
    for block in (module.script, module.stub):
        assert 'prefix = task.ext.prefix ?: "${meta.id}"' in block.statements


@pytest.mark.parametrize("name", NAMES)
def test_metadata_describe_inputs_and_outputs_as_they_are(name):
    module = modules()[name]
    content = metadata(module)
    assert len(content["keywords"]) >= 3
    assert len(content["input"]) == len(module.inputs)
    for channel, entry in zip(module.inputs, content["input"], strict=True):
        for element, (named, about) in zip(channel.elements, described(channel, entry), strict=True):
            assert named == element.text
            expected = {"val": {"map"} if named == "meta" else {"string"}, "path": {"file", "directory"}}
            assert about["type"] in expected[element.kind]
            assert about["description"]
    assert list(content["output"]) == list(module.emits)
    for emit, channel in module.emits.items():
        (entry,) = content["output"][emit]
        for element, (named, about) in zip(channel.elements, described(channel, entry), strict=True):
            assert named == key(element)
            expected = {"val": {"map", "string"}, "path": {"file", "directory"}, "eval": {"eval"}}
            assert about["type"] in expected[element.kind]
    (versions,) = [emit for emit in module.emits if emit.startswith("versions_")]
    assert content["topics"] == {"versions": content["output"][versions]}
    assert module.emits[versions].options == {"topic": "versions", "emit": versions}


@pytest.mark.parametrize("name", NAMES)
def test_environments_pin_what_they_install(name):
    content = yaml.safe_load((modules()[name].path.parent / "environment.yml").read_text())
    assert content["channels"] == ["conda-forge", "bioconda"]
    assert "name" not in content
    if name.startswith("bioattn/"):
        assert content["dependencies"][-1] == {"pip": [f"bioattn[all]=={__version__}"]}
        assert modules()[name].directives["container"] == f'"bioattn:{__version__}"'


@pytest.mark.parametrize("name", NAMES)
def test_an_nf_test_gives_its_module_what_it_takes(name):
    module = modules()[name]
    folder = module.path.parent / "tests"
    text = (folder / "main.nf.test").read_text()
    assert f'process "{module.process}"' in text
    assert f'tag "{name}"' in text
    assert (folder / re.search(r'script "(.*)"', text)[1]).resolve() == module.path
    for ran, script, body in re.findall(
        r'run\("(\w+)"\) \{\s+script "(.*?)"\s+process \{(.*?)"""\s+\}', text, re.DOTALL
    ):
        upstream = next(each for each in modules().values() if each.process == ran)
        assert (folder.parent / "tests" / script).resolve() == upstream.path
        assert len(re.findall(r"input\[\d\] =", body)) == len(upstream.inputs)
    tests = re.findall(r"when \{\s+process \{(.*?)\"\"\"\s+\}", text, re.DOTALL)
    assert len(tests) == 2
    for body in tests:
        assert len(re.findall(r"input\[\d\] =", body)) == len(module.inputs)
    assert text.count('options "-stub"') == 1
    for process, emit in re.findall(r"([A-Z_]{3,})\.out\.(\w+)", text):
        assert emit in next(each for each in modules().values() if each.process == process).emits
    for emit in re.findall(r"process\.out\.(\w+)\.every", text):
        assert emit in module.emits
    for path in re.findall(r'file\("\$\{projectDir\}/([^"]+)"', text):
        assert (PIPELINE / path).exists()
    if "config" in text:
        for process in re.findall(r"withName: '(\w+)'", (folder / "nextflow.config").read_text()):
            assert process in {each.process for each in modules().values()}


def calls(text):
    """Calls `NAME(argument, …)` of a script, their arguments split where no bracket is open."""
    found = []
    for match in re.finditer(r"^\s*([A-Z][A-Z_]+)\(", text, re.MULTILINE):
        depth, arguments, start = 1, [], match.end()
        for place in range(match.end(), len(text)):
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[place], 0)
            if depth == 0 or (depth == 1 and text[place] == ","):
                arguments.append(text[start:place].strip())
                start = place + 1
            if depth == 0:
                break
        found.append((match[1], [argument for argument in arguments if argument]))
    return found


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(PIPELINE)))
def test_calls_fit_what_is_included(script):
    text = re.sub(r"//.*", "", script.read_text())
    takes: dict[str, int] = {}
    emits: dict[str, set[str]] = {}
    for name, source in re.findall(r"include \{ (\w+)\s*\} from '(\.[^']*)'", text):
        path = (script.parent / source).with_suffix(".nf").resolve()
        assert path.is_file(), source
        module = next((each for each in modules().values() if each.path == path), None)
        if module is not None:
            assert module.process == name
            takes[name], emits[name] = len(module.inputs), set(module.emits)
        else:
            part = path.read_text()
            assert f"workflow {name} {{" in part
            block = re.search(r"take:\n(.*?)\n\n    main:", part, re.DOTALL)[1]
            takes[name] = len(block.splitlines())
            emits[name] = set(re.findall(r"^    (\w+)\s+=", part.split("emit:")[1], re.MULTILINE))
    called = calls(text)
    assert sorted({name for name, _ in called}) == sorted(takes)
    for name, arguments in called:
        assert len(arguments) == takes[name], name
    for name, emit in re.findall(r"\b([A-Z][A-Z_]+)\.out\.(\w+)", text):
        assert emit in emits[name], f"{name}.out.{emit}"
    assert text.count("(") == text.count(")")
    assert text.count("{") == text.count("}")


@pytest.mark.parametrize("name", ["promoters", "alignments"])
def test_metadata_of_subworkflows_name_their_parts(name):
    folder = PIPELINE / "subworkflows" / "local" / name
    content = yaml.safe_load((folder / "meta.yml").read_text())
    text = (folder / "main.nf").read_text()
    assert content["components"] == re.findall(r"modules/local/(.*)/main'", text)
    taken = re.findall(r"^    (\w+)\s+//", text.split("main:")[0], re.MULTILINE)
    assert [next(iter(entry)) for entry in content["input"]] == taken
    emitted = re.findall(r"^    (\w+)\s+=", text.split("emit:")[1], re.MULTILINE)
    assert [next(iter(entry)) for entry in content["output"]] == emitted


def test_every_parameter_is_described_and_used():
    properties = {
        name: about for group in SCHEMA["$defs"].values() for name, about in group["properties"].items()
    }
    assert [each["$ref"] for each in SCHEMA["allOf"]] == [f"#/$defs/{name}" for name in SCHEMA["$defs"]]
    values = params(test=False)
    assert set(properties) == set(values)
    assert set(params(test=True)) == set(values)
    kinds = {"string": str, "integer": int, "boolean": bool}
    for name, about in properties.items():
        default = about.get("default")
        if isinstance(default, str):
            default = default.replace("${projectDir}", str(PIPELINE))
        assert default == values[name], name
        assert values[name] is None or type(values[name]) is kinds[about["type"]]
    sources = [path.read_text() for path in SCRIPTS]
    sources += [config_text(name) for name in ("nextflow.config", "conf/modules.config", "conf/base.config")]
    assert set(re.findall(r"\bparams\.(\w+)", "\n".join(sources))) == set(values)
    assert not any("params." in module.path.read_text() for module in modules().values())


@pytest.mark.parametrize("kind", ["promoters", "alignments"])
def test_tables_of_samples_keep_their_schema(kind):
    schema = json.loads((PIPELINE / "assets" / f"schema_{kind}.json").read_text())
    items = schema["items"]
    table = PIPELINE / "assets" / f"{kind}_test.csv"
    assert params(test=True)[kind] == str(table)
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(items["properties"])
    for row in rows:
        for column, value in row.items():
            about = items["properties"][column]
            assert re.search(about["pattern"], value)
            if about.get("exists"):
                assert (PIPELINE / value).is_file()
    # The order of columns is the order of the elements that the subworkflow takes.
    comment = re.search(
        r"ch_samples\s+// channel: \[ (.*) \]",
        (LOCAL.parents[1] / "subworkflows" / "local" / kind / "main.nf").read_text(),
    )[1]
    assert re.findall(r"(?:val|path)\((\w+)\)", comment) == ["meta", *list(items["properties"])[1:]]


@pytest.mark.parametrize("name", ["a b", "a;rm -rf .", "$(x)", "../a", "-a", "a'b", ""])
def test_names_of_samples_are_safe_in_a_shell(name):
    for kind in ("promoters", "alignments"):
        schema = json.loads((PIPELINE / "assets" / f"schema_{kind}.json").read_text())
        assert not re.search(schema["items"]["properties"]["sample"]["pattern"], name)


def test_options_are_given_to_processes_that_there_are():
    processes = {module.process for module in modules().values()}
    for name in re.findall(r"withName: '(\w+)'", config_text("conf/modules.config")):
        assert name in processes
    used = {label for module in modules().values() for label in module.labels}
    given = set(
        re.findall(r"withLabel: (\w+)", config_text("conf/base.config") + config_text("nextflow.config"))
    )
    assert given == used == LABELS


def test_profiles_are_those_the_docs_name():
    block = re.search(r"^profiles \{\n(.*?)^\}", config_text("nextflow.config"), re.DOTALL | re.MULTILINE)[1]
    profiles = re.findall(r"^    (\w+) \{", block, re.MULTILINE)
    assert profiles == ["conda", "docker", "singularity", "apptainer", "slurm", "gpu", "test"]
