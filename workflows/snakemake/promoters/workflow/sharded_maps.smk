# The same maps by several jobs: each takes a part of the promoters, and the parts become the bytes of a single job.


scattergather:
    promoters=config["shards"],


rule attention_shard:
    input:
        model=rules.train.output.model,
        promoters=rules.promoters.output.fasta,
    output:
        attention=temp("results/seed{seed}/attention-shards/{scatteritem}.h5"),
        record=temp("results/seed{seed}/attention-shards/bioattn-records/{scatteritem}.h5.json"),
    log:
        "logs/seed{seed}/attention/{scatteritem}.log",
    benchmark:
        "benchmarks/seed{seed}/attention/{scatteritem}.tsv"
    conda:
        "../../envs/bioattn.yaml"
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
        phases=config["attention"]["phases"],
        options=config["attention"]["options"],
    message:
        "Writing the attention of all promoters: shard {params.shard}"
    shell:
        "bioattn export attention {input.model:q} {input.promoters:q} --shard {params.shard} --output {output.attention:q}"
        " --phases {params.phases} {params.options} --device {resources.device} --threads {threads} --resume"
        " > {log:q} 2>&1"


rule attention:
    input:
        gather.promoters("results/seed{{seed}}/attention-shards/{scatteritem}.h5"),
    output:
        attention="results/seed{seed}/attention.h5",
        record="results/seed{seed}/bioattn-records/attention.h5.json",
    log:
        "logs/seed{seed}/attention.log",
    benchmark:
        "benchmarks/seed{seed}/attention.tsv"
    conda:
        "../../envs/bioattn.yaml"
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


rule attribution_shard:
    input:
        model=rules.train.output.model,
        promoters=rules.promoters.output.fasta,
        genes=[] if EXPLAINED in (None, "all") else EXPLAINED,
    output:
        attribution=temp("results/seed{seed}/attribution-shards/{scatteritem}.h5"),
        record=temp("results/seed{seed}/attribution-shards/bioattn-records/{scatteritem}.h5.json"),
    log:
        "logs/seed{seed}/attribution/{scatteritem}.log",
    benchmark:
        "benchmarks/seed{seed}/attribution/{scatteritem}.tsv"
    conda:
        "../../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 2
    resources:
        mem_mb=megabytes(4000),
        runtime=minutes(240),
        gpu=GPUS,
        device=config["device"],
    params:
        shard=lambda wildcards: wildcards.scatteritem.replace("-of-", "/"),
        genes=lambda wildcards, input: option("--genes", input.genes),
        options=config["attribution"]["options"],
    message:
        "Explaining predictions base by base: shard {params.shard}"
    shell:
        "bioattn explain attribution {input.model:q} {input.promoters:q} --shard {params.shard} --output {output.attribution:q}"
        " {params.genes} {params.options} --device {resources.device} --threads {threads} --resume"
        " > {log:q} 2>&1"


rule attribution:
    input:
        gather.promoters("results/seed{{seed}}/attribution-shards/{scatteritem}.h5"),
    output:
        attribution="results/seed{seed}/attribution.h5",
        record="results/seed{seed}/bioattn-records/attribution.h5.json",
    log:
        "logs/seed{seed}/attribution.log",
    benchmark:
        "benchmarks/seed{seed}/attribution.tsv"
    conda:
        "../../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 1
    resources:
        mem_mb=megabytes(2000),
        runtime=minutes(60),
    message:
        "Joining the shards of attribution"
    shell:
        "bioattn merge {input:q} --output {output.attribution:q} > {log:q} 2>&1"
