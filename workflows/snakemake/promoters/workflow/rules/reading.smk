# Reading attention: the check, motifs, and tracks along chromosomes.


# The folder of --controls is not an output, so that its models are used again and interrupted ones resume.
rule check:
    input:
        model=rules.train.output.model,
        promoters=rules.promoters.output.fasta,
        dataset=rules.dataset.output.dataset,
        others=other_models,
    output:
        check="results/seed{seed}/check.json",
        record="results/seed{seed}/check.json.run.json",
        verdict="results/seed{seed}/check.txt",
    log:
        "logs/seed{seed}/check.log",
    benchmark:
        "benchmarks/seed{seed}/check.tsv"
    conda:
        "../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 4
    resources:
        mem_mb=megabytes(8000),
        runtime=minutes(480 if config["check"]["controls"] else 120),
        gpu=GPUS,
        device=config["device"],
    params:
        samples=config["check"]["samples"],
        others=lambda wildcards, input: " ".join(option("--other-model", model) for model in input.others),
        controls=lambda wildcards: (
            f"--controls results/seed{wildcards.seed}/controls" if config["check"]["controls"] else ""
        ),
        options=config["check"]["options"],
    message:
        "Checking whether the attention of seed {wildcards.seed} may be believed"
    shell:
        "bioattn explain check {input.model:q} {input.promoters:q} --dataset {input.dataset:q}"
        " --output {output.check:q} --samples {params.samples} {params.others} {params.controls} {params.options}"
        " --device {resources.device} --threads {threads}"
        " > {output.verdict:q} 2> {log:q}"


rule motifs:
    input:
        maps=[rules.attention.output.attention]
        + ([rules.attribution.output.attribution] if EXPLAINED else []),
        promoters=rules.promoters.output.fasta,
        database=optional_file("motifs", "database"),
    output:
        motifs=directory("results/seed{seed}/motifs"),
        record="results/seed{seed}/motifs.run.json",
    log:
        "logs/seed{seed}/motifs.log",
    benchmark:
        "benchmarks/seed{seed}/motifs.tsv"
    conda:
        "../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 1
    resources:
        mem_mb=megabytes(4000),
        runtime=minutes(120),
    params:
        database=lambda wildcards, input: option("--database", input.database),
        options=config["motifs"]["options"],
    message:
        "Finding the motifs that the model of seed {wildcards.seed} looks at"
    shell:
        "bioattn export motifs {input.maps:q} --promoters {input.promoters:q} --output {output.motifs:q}"
        " {params.database} {params.options}"
        " > {log:q} 2>&1"


rule tracks:
    input:
        attention=rules.attention.output.attention,
        genome=config["genome"],
    output:
        tracks=directory("results/seed{seed}/tracks"),
        record="results/seed{seed}/tracks.run.json",
    log:
        "logs/seed{seed}/tracks.log",
    benchmark:
        "benchmarks/seed{seed}/tracks.tsv"
    conda:
        "../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 1
    resources:
        mem_mb=megabytes(2000),
        runtime=minutes(120),
    params:
        downstream=config["promoters"]["downstream"],
        against=option("--against", config["tracks"].get("against")),
        options=config["tracks"]["options"],
    message:
        "Writing attention along the chromosomes"
    shell:
        "bioattn export tracks {input.attention:q} --output {output.tracks:q} --chromosome-sizes {input.genome:q}"
        " --downstream {params.downstream} {params.against} {params.options}"
        " > {log:q} 2>&1"
