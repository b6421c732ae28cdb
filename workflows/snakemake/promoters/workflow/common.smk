# The checked settings, and what rules make of them.

import shlex

read_settings(config, "schemas/config.schema.yaml")

if ("responses" in config) == ("contrasts" in config):
    raise WorkflowError(
        "config: give either responses (one table of genes and treatments) or contrasts (a table that lists one "
        "file of results per treatment)"
    )

CONTRASTS = read_table(config["contrasts"], "schemas/contrasts.schema.yaml") if "contrasts" in config else []
refuse_twice([row["treatment"] for row in CONTRASTS], config.get("contrasts"), "treatment")

SEEDS = config["training"]["seeds"]
# The file of genes to explain, "all", or None for no attribution.
EXPLAINED = config["attribution"].get("genes")
GPUS = 1 if config["device"] == "cuda" else 0


wildcard_constraints:
    seed=r"\d+",


def optional_file(*keys):
    """The file that a setting names, as an input: nothing where it names none."""
    value = config
    for key in keys:
        value = value.get(key, {})
    return value or []


def response_arguments(wildcards):
    if not CONTRASTS:
        return shlex.quote(config["responses"])
    return " ".join(shlex.quote(f"{row['treatment']}={row['file']}") for row in CONTRASTS)


def other_models(wildcards):
    return [f"results/seed{seed}/model" for seed in SEEDS if str(seed) != wildcards.seed]
