"""Filters that start from enriched k-mers: counted as in plain loops, found where planted and nowhere else."""

import numpy as np
import pytest
import torch
from torch.nn.functional import conv1d

from bioattn.formats.nucleotides import decode, encode, reverse_complement
from bioattn.models.promoter.config import PromoterModelConfig, Stem
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.stem import ConvStem, one_hot
from bioattn.models.promoter.training.first_weights import MIN_GENES, enriched_kmers, start_filters
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.dataset import read_dataset


def holds(codes, letters):
    """Whether a gene holds a k-mer on either strand, by looking for it in text."""
    other = decode(reverse_complement(encode(letters)))
    return np.array([letters in text or other in text for text in map(decode, codes)], dtype=float)


def test_the_pursuit_is_that_of_plain_loops(dataset_path):
    dataset = read_dataset(dataset_path)
    genes = dataset.num_genes
    responses = np.nan_to_num(dataset.targets.astype(float), nan=5.0)
    found = enriched_kmers(dataset.codes, responses, number=3, lengths=[4])
    residual = (responses - responses.mean(0)) / responses.std(0)
    for kmer in found:
        best = ("", 0, 0.0)
        for number in range(4**4):
            letters = "".join("ACGT"[number >> 2 * place & 3] for place in range(4))
            presence = holds(dataset.codes, letters)
            if not MIN_GENES <= presence.sum() <= genes - MIN_GENES:
                continue
            standard = (presence - presence.mean()) / presence.std()
            for direction in range(3):
                z = (standard * residual[:, direction]).sum() / np.sqrt(genes)
                if abs(z) > abs(best[2]) + 1e-9:
                    best = (letters, direction, z)
        letters, direction, z = best
        assert kmer.letters in (letters, decode(reverse_complement(encode(letters))))
        assert kmer.direction == direction
        assert kmer.z == pytest.approx(z, rel=1e-5)
        presence = holds(dataset.codes, letters)
        standard = (presence - presence.mean()) / presence.std()
        residual -= standard[:, None] * (standard @ residual / genes)


@pytest.mark.parametrize(
    ("task", "stem"), [("dataset_path", Stem.CONV), ("binary_path", Stem.CONV), ("dataset_path", Stem.BOTH)]
)
def test_planted_motifs_are_found_for_their_treatments(task, stem, motifs, request):
    dataset = read_dataset(request.getfixturevalue(task))
    config = PromoterModelConfig(length=dataset.length, channels=64 if stem is Stem.BOTH else 32, stem=stem)
    vocabulary = TreatmentVocabulary.learn(
        dataset.treatments, encoding=config.treatment_encoder, unconditional=True, columns=()
    )
    torch.manual_seed(0)
    model = PromoterModel(config, vocabulary)
    convolution = next(module.convolution for module in model.modules() if isinstance(module, ConvStem))
    before = convolution.weight.detach().clone()
    found = start_filters(model, dataset)
    assert 3 <= len(found) <= 16
    # Of a 7-base motif 6 bases in a row are counted, with up to two bases beside it 8.
    for kmer in found[:3]:
        motif = motifs[kmer.direction]
        texts = (kmer.letters, decode(reverse_complement(encode(kmer.letters))))
        assert any(motif[:6] in text or motif[1:] in text for text in texts), (kmer, motif)
    assert {kmer.direction for kmer in found[:3]} == {0, 1, 2}
    filters = convolution.weight
    torch.testing.assert_close(filters[len(found) :], before[len(found) :])
    for number, kmer in enumerate(found):
        texts = ("C" * 8 + kmer.letters + "C" * 8, "C" * 24)
        match = [
            conv1d(one_hot(torch.from_numpy(encode(text))[None]), filters[number, None]).max()
            for text in texts
        ]
        assert match[0] > match[1] + 1


def test_responses_that_follow_nothing_leave_the_filters_random(dataset_path):
    dataset = read_dataset(dataset_path)
    shuffled = np.random.default_rng(1).permuted(np.nan_to_num(dataset.targets, nan=5.0), axis=0)
    assert enriched_kmers(dataset.codes, shuffled.astype(float), number=16) == []
    assert enriched_kmers(dataset.codes, np.ones((len(dataset.codes), 2)), number=16) == []
    assert enriched_kmers(dataset.codes[:10], shuffled[:10].astype(float), number=16) == []
