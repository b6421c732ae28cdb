# Shared by all rules: the checked settings, and their conversion to options.

import shlex

read_settings(config, "../schemas/config.schema.yaml")

if ("responses" in config) == ("contrasts" in config):
    raise WorkflowError(
        "config: give either responses (one table of genes and treatments) or contrasts (a table that lists one "
        "file of results per treatment)"
    )

CONTRASTS = (
    read_table(config["contrasts"], "../schemas/contrasts.schema.yaml") if "contrasts" in config else []
)
refuse_twice([row["treatment"] for row in CONTRASTS], config.get("contrasts"), "treatment")

SEEDS = config["training"]["seeds"]
# The file of genes to explain, "all", or None for no attribution.
EXPLAINED = config["attribution"].get("genes")
GPUS = 1 if config["device"] == "cuda" else 0


wildcard_constraints:
    seed=r"\d+",


def option(name, value):
    """`name value` for the shell, or nothing where there is no value."""
    return f"{name} {shlex.quote(str(value))}" if value not in (None, "", []) else ""


def optional_file(*keys):
    """The file that a setting names, as an input: nothing where it names none."""
    value = config
    for key in keys:
        value = value.get(key, {})
    return value or []


def minutes(number):
    """More time for each attempt: what was interrupted goes on."""
    return lambda wildcards, attempt: number * attempt


def megabytes(number):
    return lambda wildcards, attempt: number * attempt


def response_arguments(wildcards):
    if not CONTRASTS:
        return shlex.quote(config["responses"])
    return " ".join(shlex.quote(f"{row['treatment']}={row['file']}") for row in CONTRASTS)


def other_models(wildcards):
    return [f"results/seed{seed}/model" for seed in SEEDS if str(seed) != wildcards.seed]
