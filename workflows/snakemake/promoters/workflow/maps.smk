# Maps of all promoters: attention, and contributions of bases.


rule attention:
    input:
        model=rules.train.output.model,
        promoters=rules.promoters.output.fasta,
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
    threads: 2
    resources:
        mem_mb=megabytes(4000),
        runtime=minutes(120),
        gpu=GPUS,
        device=config["device"],
    params:
        phases=config["attention"]["phases"],
        options=config["attention"]["options"],
    message:
        "Writing the attention of all promoters"
    shell:
        "bioattn export attention {input.model:q} {input.promoters:q} --output {output.attention:q}"
        " --phases {params.phases} {params.options} --device {resources.device} --threads {threads} --resume"
        " > {log:q} 2>&1"


rule attribution:
    input:
        model=rules.train.output.model,
        promoters=rules.promoters.output.fasta,
        genes=[] if EXPLAINED in (None, "all") else EXPLAINED,
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
    threads: 2
    resources:
        mem_mb=megabytes(4000),
        runtime=minutes(240),
        gpu=GPUS,
        device=config["device"],
    params:
        genes=lambda wildcards, input: option("--genes", input.genes),
        options=config["attribution"]["options"],
    message:
        "Explaining predictions base by base"
    shell:
        "bioattn explain attribution {input.model:q} {input.promoters:q} --output {output.attribution:q}"
        " {params.genes} {params.options} --device {resources.device} --threads {threads} --resume"
        " > {log:q} 2>&1"
