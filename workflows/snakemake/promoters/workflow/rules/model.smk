# Models, one for each seed, and their predictions.
#
# `--resume` is always given. An unfinished model is in model.partial, which is not an output of the rule, so Snakemake
# does not remove it: a killed job resumes from it when the workflow starts again.


rule train:
    input:
        dataset=rules.dataset.output.dataset,
        settings=optional_file("training", "settings"),
    output:
        model=directory("results/seed{seed}/model"),
        record="results/seed{seed}/model.run.json",
    log:
        "logs/seed{seed}/train.log",
    benchmark:
        "benchmarks/seed{seed}/train.tsv"
    conda:
        "../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 4
    resources:
        mem_mb=megabytes(8000),
        runtime=minutes(240),
        gpu=GPUS,
        device=config["device"],
    params:
        settings=lambda wildcards, input: option("--config", input.settings),
        epochs=option("--epochs", config["training"].get("epochs")),
        options=config["training"]["options"],
    message:
        "Training the model of seed {wildcards.seed}"
    shell:
        "bioattn train promoter {input.dataset:q} --output {output.model:q} --seed {wildcards.seed}"
        " {params.settings} {params.epochs} {params.options}"
        " --device {resources.device} --threads {threads} --resume"
        " > {log:q} 2>&1"


rule predictions:
    input:
        model=rules.train.output.model,
        promoters=rules.promoters.output.fasta,
    output:
        table="results/seed{seed}/predictions.tsv",
        record="results/seed{seed}/predictions.tsv.run.json",
    log:
        "logs/seed{seed}/predictions.log",
    benchmark:
        "benchmarks/seed{seed}/predictions.tsv"
    conda:
        "../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 2
    resources:
        mem_mb=megabytes(4000),
        runtime=minutes(60),
        gpu=GPUS,
        device=config["device"],
    message:
        "Predicting the responses of all promoters"
    shell:
        "bioattn run promoter {input.model:q} {input.promoters:q} --output {output.table:q}"
        " --device {resources.device} --threads {threads}"
        " > {log:q} 2>&1"
