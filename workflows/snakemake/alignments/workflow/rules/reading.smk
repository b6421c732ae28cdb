# Contacts from attention, figures, and one page for each protein.


rule contacts:
    input:
        attention=rules.evoformer.output.attention,
        regression=config["contacts"].get("regression", []),
    output:
        table="results/contacts/{protein}.tsv",
        record="results/contacts/{protein}.tsv.run.json",
    log:
        "logs/{protein}/contacts.log",
    benchmark:
        "benchmarks/{protein}/contacts.tsv"
    group:
        "protein"
    conda:
        "../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 1
    resources:
        mem_mb=megabytes(2000),
        runtime=minutes(30),
    params:
        regression=lambda wildcards, input: option("--regression", input.regression),
    message:
        "Reading contacts of {wildcards.protein} from attention"
    shell:
        "bioattn export contacts {input.attention:q} --output {output.table:q} {params.regression}"
        " > {log:q} 2>&1"


rule plot_contacts:
    input:
        prediction=rules.evoformer.output.prediction,
        structure=structure,
    output:
        figure=report(
            "results/figures/{protein}.contacts.svg",
            category="Figures",
            labels={"protein": "{protein}", "what": "contacts"},
        ),
        record="results/figures/{protein}.contacts.svg.run.json",
    log:
        "logs/{protein}/plot_contacts.log",
    group:
        "protein"
    conda:
        "../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 1
    resources:
        mem_mb=megabytes(1000),
        runtime=minutes(10),
    params:
        truth=lambda wildcards, input: option("--truth", input.structure),
    message:
        "Drawing the contacts of {wildcards.protein}"
    shell:
        "bioattn plot contacts {input.prediction:q} --output {output.figure:q} {params.truth}"
        " > {log:q} 2>&1"


rule plot_heads:
    input:
        rules.evoformer.output.attention,
    output:
        figure=report(
            "results/figures/{protein}.heads.svg",
            category="Figures",
            labels={"protein": "{protein}", "what": "attention heads"},
        ),
        record="results/figures/{protein}.heads.svg.run.json",
    log:
        "logs/{protein}/plot_heads.log",
    group:
        "protein"
    conda:
        "../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 1
    resources:
        mem_mb=megabytes(2000),
        runtime=minutes(10),
    message:
        "Drawing the attention heads of {wildcards.protein}"
    shell:
        "bioattn plot heads {input:q} --output {output.figure:q} --corrected > {log:q} 2>&1"


rule report:
    input:
        results=[
            rules.evoformer.output.prediction,
            rules.evoformer.output.attention,
            rules.alignment.output.alignment,
        ],
        structure=structure,
    output:
        page=report("results/reports/{protein}.html", category="Reports", labels={"protein": "{protein}"}),
        record="results/reports/{protein}.html.run.json",
    log:
        "logs/{protein}/report.log",
    benchmark:
        "benchmarks/{protein}/report.tsv"
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
        options=config["report"]["options"],
    message:
        "Making one page of all results of {wildcards.protein}"
    shell:
        "bioattn report {input.results:q} {input.structure:q} --output {output.page:q} {params.options}"
        " > {log:q} 2>&1"


# MultiQC finds its sections by their names: `multiqc results` shows those of all proteins in one page.
rule multiqc:
    input:
        rules.alignment.output.statistics,
        rules.evoformer.output.prediction,
    output:
        sections=directory("results/multiqc/{protein}"),
        record="results/multiqc/{protein}.run.json",
    log:
        "logs/{protein}/multiqc.log",
    group:
        "protein"
    conda:
        "../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 1
    resources:
        mem_mb=megabytes(1000),
        runtime=minutes(10),
    message:
        "Writing sections for MultiQC of {wildcards.protein}"
    shell:
        "bioattn export multiqc {input:q} --output {output.sections:q} --sample {wildcards.protein}"
        " > {log:q} 2>&1"
