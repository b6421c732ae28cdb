"""`bioattn run language`: embeddings, scores, contacts and predictions of sequences, in files as they come."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import numpy as np

from bioattn.errors import SettingsError
from bioattn.models.language.config import Score, Shape
from bioattn.models.language.family import LanguageRun
from bioattn.models.language.file_kinds import embeddings_file
from bioattn.models.language.folder import load_language_model
from bioattn.models.language.layers import is_word
from bioattn.models.language.scoring import Wanted, layer_numbers
from bioattn.models.language.source import RESIDUES
from bioattn.models.language.tables import read_source, results, table_header, variant_table, warn_of_missing
from bioattn.models.running import Running, RunReport, stream_output, tsv
from bioattn.store.shards import ShardRecord, table_line
from bioattn.system.device import RunPrecision
from bioattn.system.shard import parse_shard
from bioattn.text import counted


def run(settings: LanguageRun, running: Running) -> RunReport:
    """Write what is asked for. Raises: SettingsError for what does not fit together."""
    score = _score(settings)
    device = running.device(settings.device, settings.threads)
    alone = score is Score.NONE and settings.contacts is None
    precision = settings.precision.on(device, tolerant=alone)
    if precision is not RunPrecision.FP32:
        running.progress.note(f"in {precision} (--precision)")
    loaded = load_language_model(settings.model, device, precision.dtype)
    source, most = read_source(loaded, settings.sequences, settings.window)
    pool = None if settings.per_token else settings.pool
    layers = layer_numbers(_layers(settings.layers), loaded) if settings.embeddings is not None else ()
    mutants = settings.variants
    wanted = Wanted(
        score=Score.NONE if mutants else score,
        layers=layers,
        pool=pool,
        contacts=settings.contacts is not None,
    )
    record = None
    if settings.shard is not None:
        decides = {"model": loaded.sha256, "sequences": source.sha256, "window": most, "score": score}
        decides |= {"layers": layers, "pool": pool, "precision": precision}
        record = ShardRecord.of(parse_shard(settings.shard), source.num_samples, decides)
        source = source.part(slice(record.first, record.stop))
    what = counted(source.num_samples, "sequence")
    scores = "scores" if loaded.model.config.shape is Shape.DECODER else f"scores ({score})"
    sentences: list[str] = []
    written: list[Path] = []
    without: list[str] = []
    with ExitStack() as files:

        def table(path: Path, header: Sequence[str], holds: str, **more: bool) -> TextIO:
            file, paths = files.enter_context(stream_output(path, running))
            if record is not None:
                file.write(table_line(replace(record, settings={**record.settings, **more})))
            file.write("\t".join(header) + "\n")
            written.extend(paths)
            sentences.extend(f"wrote {path}: {holds} of {what}" for path in paths)
            return file

        rows = pairs = embeddings = None
        if mutants is not None and settings.output is not None:
            header, scored, number = variant_table(loaded, settings.sequences, source, most, mutants, score)
            rows = table(settings.output, header, f"{scores} of {counted(number, 'variant')}")
            running.progress.begin("variants", number)
            for row in scored:
                without += [f"{row[0]} {row[1]}"] if None in row else []
                rows.write(tsv(row))
                running.progress.advance()
            running.progress.end()
        elif settings.output is not None:
            header = table_header(loaded, score)
            holds = scores if "log_likelihood" in header else "words"
            rows = table(settings.output, header, holds if loaded.model.readout is None else "predictions")
        if settings.contacts is not None:
            # SciPy's optimisers and Biopython, half a second
            from bioattn.interpret.contacts import CONTACT_COLUMNS, contact_lines

            pairs = table(settings.contacts, (*CONTACT_COLUMNS, "probability"), "contacts", several_rows=True)
        if settings.embeddings is not None:
            words = [int(is_word(tokens).sum()) for tokens in source.items]
            embeddings = files.enter_context(
                embeddings_file(
                    settings.embeddings,
                    source.samples.ids,
                    words,
                    layers=layers,
                    channels=loaded.config.channels,
                    pool=pool,
                    model_sha256=loaded.sha256,
                    shard=record,
                )
            )
            many = source.num_samples if pool else sum(words)
            sentences.append(
                f"wrote {settings.embeddings}: {many:,} embeddings of {loaded.config.channels} channels"
            )
            written.append(settings.embeddings)
        asked = mutants is None or wanted.layers or wanted.contacts
        for found in results(loaded, source, wanted, most, running.progress) if asked else ():
            if rows is not None and mutants is None:
                rows.writelines(map(tsv, found.rows))
                without += [str(row[0]) for row in found.rows if None in row]
            if embeddings is not None and found.embeddings is not None:
                embeddings(found.embeddings)
            if pairs is not None:
                samples = found.source.with_residues(loaded.vocabulary).samples
                for name, own, map_RR in zip(
                    samples.ids, samples.columns[RESIDUES], found.contacts, strict=True
                ):
                    letters = str(own).replace("-", "")
                    pairs.writelines(contact_lines(name, letters, np.arange(len(letters)), map_RR))
    warn_of_missing(loaded, mutants or settings.sequences, without, score)
    return RunReport(*sentences, outputs=written, sequences=source.num_samples)


def _score(settings: LanguageRun) -> Score:
    """How sequences are scored. Raises: SettingsError for options that do not fit together."""
    if settings.output is None:
        if settings.embeddings is None and settings.contacts is None:
            raise SettingsError("nothing is asked for; give --output (scores), --embeddings or --contacts")
        if settings.variants is not None or settings.score not in (None, Score.NONE):
            raise SettingsError("scores need --output, the table that they go to")
        return Score.NONE
    if settings.embeddings is None and (settings.layers is not None or settings.per_token):
        raise SettingsError("--layers and --per-token are for --embeddings; give that, or leave them out")
    if settings.variants is not None and settings.score is Score.NONE:
        raise SettingsError("--variants: are scored; leave --score none out")
    if settings.variants is not None and settings.shard is not None:
        raise SettingsError("--shard: is for sequences; cut the table of --variants instead")
    return settings.score or Score.MASKED


def _layers(text: str | None) -> Sequence[int]:
    try:
        return [-1] if text is None else [int(part) for part in text.split(",")]
    except ValueError:
        raise SettingsError(f"--layers {text!r}: give numbers with commas between, such as 6,12,-1") from None
