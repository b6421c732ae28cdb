# Needs Python >= 3.11 with venv, and make. No compiler.
#
#   make demo           train on simulated promoters, draw a picture, make a page of results, compare with the truth
#   make demo SEED=3    the same with another seed of the training
#   make test           lint, types and tests; these see no GPU
#   make test-gpu       tests that need a CUDA device: every family writes what it writes on the CPU
#
# pip obeys its usual settings: PIP_EXTRA_INDEX_URL names a mirror or an index with CPU builds of torch.

PYTHON ?= python3
SEED ?= 0
OUT ?= demo-output
# Number of processes that run tests.
WORKERS ?= 2

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet -c constraints.txt
BIOATTN := $(BIN)/bioattn
DEMO := data/demo
SNAKEMAKE := .venv-snakemake
MULTIQC := .venv-multiqc

.DELETE_ON_ERROR:
.PHONY: demo install install-dev install-snakemake install-multiqc test test-gpu lint types pytest clean distclean

install: $(VENV)/installed
install-dev: $(VENV)/installed-dev

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "bioattn needs Python >= 3.11; name one: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing bioattn and PyTorch into $(VENV); pip says nothing for some minutes"
	$(INSTALL) -e '.[plot]'
	@touch $@

$(VENV)/installed-dev: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) -e '.[dev]'
	@touch $@ $(VENV)/installed

# Snakemake in a separate environment, for the tests of workflows/snakemake. Without it they are skipped.
install-snakemake: $(SNAKEMAKE)/installed

$(SNAKEMAKE)/installed: workflows/snakemake/requirements.txt
	$(PYTHON) -m venv $(SNAKEMAKE)
	$(SNAKEMAKE)/bin/python -m pip install --quiet -r workflows/snakemake/requirements.txt
	@touch $@

# MultiQC in a separate environment, for the tests of `bioattn report`.
install-multiqc: $(MULTIQC)/installed

$(MULTIQC)/installed:
	$(PYTHON) -m venv $(MULTIQC)
	$(MULTIQC)/bin/python -m pip install --quiet multiqc==1.35
	@touch $@

# The demo, step by step. make skips files that are newer than their inputs; after a change of the code, run
# `make clean demo`.
demo: $(OUT)/report-$(SEED).html $(OUT)/attention-$(SEED).png | $(VENV)/installed
	@cp $(OUT)/report-$(SEED).html $(OUT)/report.html
	@$(BIOATTN) simulate score $(OUT)/attention-$(SEED).h5 $(DEMO)/truth.tsv.gz --dataset $(OUT)/demo.dataset.h5 \
	  -o $(OUT)/score-$(SEED).json --quiet
	@echo
	@echo "A picture of one promoter:  $(OUT)/attention-$(SEED).png"
	@echo "All results on one page:    $(OUT)/report.html (open it in a browser)"
	@echo "Next: the examples in README.md, or docs/tutorials/promoters.md, which explains each step."

$(OUT)/promoters.fa: $(DEMO)/genome.fa.gz $(DEMO)/annotation.gff3.gz | $(VENV)/installed
	@mkdir -p $(OUT)
	$(BIOATTN) prepare promoters $(DEMO)/genome.fa.gz $(DEMO)/annotation.gff3.gz \
	  --anchor cds --upstream 200 --downstream 0 --flank 20 -o $@

$(OUT)/demo.dataset.h5: $(OUT)/promoters.fa $(DEMO)/responses.tsv.gz $(DEMO)/treatments.tsv
	$(BIOATTN) prepare dataset $(OUT)/promoters.fa $(DEMO)/responses.tsv.gz --treatment-table $(DEMO)/treatments.tsv \
	  --holdout validation=chr7 --holdout test=chr8 -o $@

# One thread: a small model gains nothing from a second one, and on a busy machine it costs much time.
$(OUT)/model-$(SEED)/model.safetensors: $(OUT)/demo.dataset.h5
	$(BIOATTN) train promoter $(OUT)/demo.dataset.h5 -o $(OUT)/model-$(SEED) --epochs 10 --seed $(SEED) --threads 1 --force

$(OUT)/attention-$(SEED).h5: $(OUT)/model-$(SEED)/model.safetensors
	$(BIOATTN) export attention $(OUT)/model-$(SEED) $(OUT)/promoters.fa -o $@ --force

$(OUT)/check-$(SEED).json: $(OUT)/model-$(SEED)/model.safetensors
	$(BIOATTN) explain check $(OUT)/model-$(SEED) $(OUT)/promoters.fa --dataset $(OUT)/demo.dataset.h5 \
	  --samples 40 --threads 1 -o $@ > $(OUT)/check-$(SEED).txt

$(OUT)/attention-$(SEED).png: $(OUT)/attention-$(SEED).h5 $(DEMO)/truth.tsv.gz
	$(BIOATTN) plot $(OUT)/attention-$(SEED).h5 $(DEMO)/truth.tsv.gz --gene G3512 -o $@ \
	  --annotation $(DEMO)/annotation.gff3.gz --dpi 150

$(OUT)/report-$(SEED).html: $(OUT)/attention-$(SEED).h5 $(OUT)/check-$(SEED).json
	$(BIOATTN) report $(OUT)/model-$(SEED) $(OUT)/demo.dataset.h5 $(OUT)/attention-$(SEED).h5 $(OUT)/check-$(SEED).json \
	  $(OUT)/promoters.fa --annotation $(DEMO)/annotation.gff3.gz --genes G3512 -o $@

test: $(VENV)/installed-dev
	$(MAKE) --jobs --output-sync=line lint types pytest

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy

# Bytecode is kept, whatever the environment says: to compile the tests again takes ten seconds of each process.
pytest: $(VENV)/installed-dev
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-gpu: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) -m gpu tests/attention tests/models tests/system

clean:
	rm -rf $(OUT) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

distclean: clean
	rm -rf $(VENV) $(SNAKEMAKE) $(MULTIQC)
