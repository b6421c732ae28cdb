# Attention of all promoters: one job, or several that each take a part of the promoters.

ATTENTION_OPTIONS = " ".join(
    [option("--phases", config["attention"]["phases"]), config["attention"]["options"]]
)

if config["attention"]["shards"] == 1:

    rule attention:
        input:
            model=rules.train.output.model,
            promoters=rules.promoters.output.fasta,
        output:
            attention="results/seed{seed}/attention.h5",
            record="results/seed{seed}/attention.h5.run.json",
        log:
            "logs/seed{seed}/attention.log",
        benchmark:
            "benchmarks/seed{seed}/attention.tsv"
        conda:
            "../envs/bioattn.yaml"
        container:
            config["container"]
        threads: 2
        resources:
            mem_mb=megabytes(4000),
            runtime=minutes(120),
            gpu=GPUS,
            device=config["device"],
        params:
            options=ATTENTION_OPTIONS,
        message:
            "Writing the attention of all promoters"
        shell:
            "bioattn export attention {input.model:q} {input.promoters:q} --output {output.attention:q}"
            " {params.options} --device {resources.device} --threads {threads} --resume"
            " > {log:q} 2>&1"

else:

    scattergather:
        promoters=config["attention"]["shards"],

    rule attention_shard:
        input:
            model=rules.train.output.model,
            promoters=rules.promoters.output.fasta,
        output:
            attention=temp("results/seed{seed}/attention-shards/{scatteritem}.h5"),
            record=temp("results/seed{seed}/attention-shards/{scatteritem}.h5.run.json"),
        log:
            "logs/seed{seed}/attention/{scatteritem}.log",
        benchmark:
            "benchmarks/seed{seed}/attention/{scatteritem}.tsv"
        conda:
            "../envs/bioattn.yaml"
        container:
            config["container"]
        threads: 2
        resources:
            mem_mb=megabytes(4000),
            runtime=minutes(120),
            gpu=GPUS,
            device=config["device"],
        params:
            shard=lambda wildcards: wildcards.scatteritem.replace("-of-", "/"),
            options=ATTENTION_OPTIONS,
        message:
            "Writing the attention of promoters, shard {params.shard}"
        shell:
            "bioattn export attention {input.model:q} {input.promoters:q} --output {output.attention:q}"
            " --shard {params.shard} {params.options} --device {resources.device} --threads {threads} --resume"
            " > {log:q} 2>&1"

    rule attention:
        input:
            gather.promoters("results/seed{{seed}}/attention-shards/{scatteritem}.h5"),
        output:
            attention="results/seed{seed}/attention.h5",
            record="results/seed{seed}/attention.h5.run.json",
        log:
            "logs/seed{seed}/attention.log",
        benchmark:
            "benchmarks/seed{seed}/attention.tsv"
        conda:
            "../envs/bioattn.yaml"
        container:
            config["container"]
        threads: 1
        resources:
            mem_mb=megabytes(2000),
            runtime=minutes(60),
        message:
            "Joining the shards of attention"
        shell:
            "bioattn merge {input:q} --output {output.attention:q} > {log:q} 2>&1"
