# The checked settings, and the list of alignments.

import os
import re

# Files in a folder that `bioattn run evoformer` takes for alignments.
SUFFIX = re.compile(
    r"\.(a2m|a3m|afa|aln|clu|clustal|clustalw|clw|fa|faa|fas|fasta|msa|mfa|phy|phylip|sth|sto|stockholm|stk)"
    r"(\.gz|\.xz)?$",
    re.IGNORECASE,
)

read_settings(config, "schemas/config.schema.yaml")


def find_alignments(place):
    """Protein to its row: the files of a folder, or the rows of a table."""
    if not os.path.isdir(place):
        rows = read_table(place, "schemas/alignments.schema.yaml")
        refuse_twice([row["protein"] for row in rows], place, "protein")
        return {row["protein"]: row for row in rows}
    names = sorted(name for name in os.listdir(place) if SUFFIX.search(name) and not name.startswith("."))
    if not names:
        raise WorkflowError(
            f"config: alignments is the folder {place}, in which no file has a suffix of alignments"
        )
    rows = [{"protein": SUFFIX.sub("", name), "alignment": os.path.join(place, name)} for name in names]
    for row in rows:
        check(row, "schemas/alignments.schema.yaml", row["alignment"])
    refuse_twice([row["protein"] for row in rows], place, "protein")
    return {row["protein"]: row for row in rows}


ALIGNMENTS = find_alignments(config["alignments"])
GPUS = 1 if config["device"] == "cuda" else 0


wildcard_constraints:
    protein="|".join(map(re.escape, ALIGNMENTS)),


def structure(wildcards):
    """The structure of a protein as an input, nothing where the table names none."""
    return ALIGNMENTS[wildcards.protein].get("structure", [])
