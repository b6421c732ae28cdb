"""Sites of the yeast table's motifs, as counted by whoever made the table: measured genes with a site."""

from pathlib import Path

import numpy as np
import pandas as pd

from bioattn.interpret.choices import MatchBy
from bioattn.interpret.known_motifs.expected_motifs import parse_consensus, read_expected
from bioattn.interpret.known_motifs.expected_sites import locate
from bioattn.models.promoter.inference.batches import scan_promoters
from bioattn_cli.main import main


def test_as_many_genes_have_sites_as_the_table_says(shared: Path, tmp_path: Path) -> None:
    yeast = shared / "data" / "yeast"
    fasta = tmp_path / "promoters.fa"
    assert (
        main(
            [
                *(
                    "prepare",
                    "promoters",
                    str(yeast / "R64_genbank.genome.fa.gz"),
                    str(yeast / "R64_genbank.gff3.gz"),
                ),
                *("-o", str(fasta), "--upstream", "500", "--downstream", "0", "--anchor", "cds", "-q"),
                *("--biotype", "protein_coding", "--id-attribute", "locus_tag"),
            ]
        )
        == 0
    )
    (batch,) = scan_promoters(fasta, 500).batches(10_000)
    responses = pd.read_csv(yeast / "gasch2000_group_mean_log2ratio.tsv.gz", sep="\t", index_col=0)
    told = pd.read_csv(yeast / "expected_motif_condition.tsv", sep="\t")
    pairs = read_expected(yeast / "expected_motif_condition.tsv")
    exact = [number for number, pair in enumerate(pairs) if parse_consensus(pair.consensus) is not None]
    located = locate(
        [pairs[number] for number in exact],
        batch.codes,
        None,
        match_by=MatchBy.CONSENSUS,
        num_shuffled=0,
        p_value=1e-4,
        seed=0,
    )
    names = np.array(batch.samples.ids)
    for number, found in zip(exact, located, strict=True):
        measured = set(responses.index[responses[pairs[number].condition].notna()])
        genes = set(names[found.sites.rows].tolist()) & measured
        # Promoters that others trimmed or left out at chromosome ends are the rest.
        assert abs(len(genes) - told["n_with"][number]) <= 2, pairs[number]
