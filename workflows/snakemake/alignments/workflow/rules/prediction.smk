# From an alignment to predictions and attention: one job each for every protein.


rule alignment:
    input:
        lambda wildcards: ALIGNMENTS[wildcards.protein]["alignment"],
    output:
        alignment="results/alignments/{protein}.a3m",
        record="results/alignments/{protein}.a3m.run.json",
        statistics="results/alignments/{protein}.json",
    log:
        "logs/{protein}/alignment.log",
    benchmark:
        "benchmarks/{protein}/alignment.tsv"
    group:
        "protein"
    conda:
        "../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 1
    resources:
        mem_mb=megabytes(4000),
        runtime=minutes(30),
    params:
        query=lambda wildcards: option("--query", ALIGNMENTS[wildcards.protein].get("query")),
        options=config["prepare"]["options"],
    message:
        "Filtering the alignment of {wildcards.protein}"
    shell:
        "bioattn prepare msa {input:q} --output {output.alignment:q} --stats {output.statistics:q}"
        " --threads {threads} {params.query} {params.options}"
        " > {log:q} 2>&1"


rule evoformer:
    input:
        alignment=rules.alignment.output.alignment,
        model=config["model"],
        settings=config["evoformer"].get("settings", []),
    output:
        prediction=directory("results/predictions/{protein}"),
        record="results/predictions/{protein}.run.json",
        attention="results/attention/{protein}.h5",
    log:
        "logs/{protein}/evoformer.log",
    benchmark:
        "benchmarks/{protein}/evoformer.tsv"
    group:
        "protein"
    conda:
        "../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 4
    resources:
        mem_mb=megabytes(8000),
        runtime=minutes(120),
        gpu=GPUS,
        device=config["device"],
    params:
        sites=" ".join(option("--sites", pattern) for pattern in config["evoformer"]["sites"]),
        settings=lambda wildcards, input: option("--config", input.settings),
        options=config["evoformer"]["options"],
    message:
        "Predicting contacts of {wildcards.protein}, with attention"
    shell:
        "bioattn run evoformer {input.alignment:q} --model {input.model:q} --output {output.prediction:q}"
        " --attention {output.attention:q} {params.sites} {params.settings} {params.options}"
        " --device {resources.device} --threads {threads} --resume"
        " > {log:q} 2>&1"
