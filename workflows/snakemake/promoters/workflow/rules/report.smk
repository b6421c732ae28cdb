# Figures, and one page with all results for each seed; `snakemake --report` shows both too.


rule plot_training:
    input:
        rules.train.output.model,
    output:
        figure=report(
            "results/seed{seed}/training.svg",
            category="Figures",
            labels={"seed": "{seed}", "what": "training"},
        ),
        record="results/seed{seed}/training.svg.run.json",
    log:
        "logs/seed{seed}/plot_training.log",
    conda:
        "../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 1
    resources:
        mem_mb=megabytes(1000),
        runtime=minutes(10),
    message:
        "Drawing the training of seed {wildcards.seed}"
    shell:
        "bioattn plot training {input:q} --output {output.figure:q} > {log:q} 2>&1"


rule plot_check:
    input:
        rules.check.output.check,
    output:
        figure=report(
            "results/seed{seed}/check.svg", category="Figures", labels={"seed": "{seed}", "what": "check"}
        ),
        record="results/seed{seed}/check.svg.run.json",
    log:
        "logs/seed{seed}/plot_check.log",
    conda:
        "../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 1
    resources:
        mem_mb=megabytes(1000),
        runtime=minutes(10),
    message:
        "Drawing the check of seed {wildcards.seed}"
    shell:
        "bioattn plot check {input:q} --output {output.figure:q} > {log:q} 2>&1"


rule report:
    input:
        results=[
            rules.train.output.model,
            rules.dataset.output.dataset,
            rules.attention.output.attention,
            rules.check.output.check,
            rules.motifs.output.motifs,
            rules.promoters.output.fasta,
        ]
        + ([rules.attribution.output.attribution] if EXPLAINED else []),
        annotation=config["annotation"],
        database=optional_file("motifs", "database"),
    output:
        page=report("results/seed{seed}/report.html", category="Reports", labels={"seed": "{seed}"}),
        record="results/seed{seed}/report.html.run.json",
    log:
        "logs/seed{seed}/report.log",
    benchmark:
        "benchmarks/seed{seed}/report.tsv"
    conda:
        "../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 1
    resources:
        mem_mb=megabytes(4000),
        runtime=minutes(30),
    params:
        motifs=lambda wildcards, input: option("--motifs", input.database),
        title=option("--title", config["report"].get("title")),
        options=config["report"]["options"],
    message:
        "Making one page of all results of seed {wildcards.seed}"
    shell:
        "bioattn report {input.results:q} --annotation {input.annotation:q} --output {output.page:q}"
        " {params.motifs} {params.title} {params.options}"
        " > {log:q} 2>&1"


# MultiQC finds its sections by their names: `multiqc results` shows those of all seeds, and of any other workflow.
rule multiqc:
    input:
        rules.promoters.output.fasta,
        rules.dataset.output.dataset,
        rules.train.output.model,
        rules.check.output.check,
    output:
        sections=directory("results/seed{seed}/multiqc"),
        record="results/seed{seed}/multiqc.run.json",
    log:
        "logs/seed{seed}/multiqc.log",
    conda:
        "../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 1
    resources:
        mem_mb=megabytes(1000),
        runtime=minutes(10),
    message:
        "Writing sections for MultiQC of seed {wildcards.seed}"
    shell:
        "bioattn export multiqc {input:q} --output {output.sections:q} --sample seed{wildcards.seed}"
        " > {log:q} 2>&1"
