# From genome, annotation and responses to the training dataset.


rule promoters:
    input:
        genome=config["genome"],
        annotation=config["annotation"],
        aliases=optional_file("promoters", "chromosome_aliases"),
    output:
        fasta="results/promoters.fa",
        bed="results/promoters.bed",
        audit="results/promoters.audit.tsv",
        record="results/promoters.fa.run.json",
    log:
        "logs/promoters.log",
    benchmark:
        "benchmarks/promoters.tsv"
    conda:
        "../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 1
    resources:
        mem_mb=megabytes(2000),
        runtime=minutes(30),
    params:
        upstream=config["promoters"]["upstream"],
        downstream=config["promoters"]["downstream"],
        flank=config["promoters"]["flank"],
        anchor=config["promoters"]["anchor"],
        aliases=lambda wildcards, input: option("--chromosome-aliases", input.aliases),
        options=config["promoters"]["options"],
    message:
        "Cutting the promoters of {input.annotation} out of {input.genome}"
    shell:
        "bioattn prepare promoters {input.genome:q} {input.annotation:q} --output {output.fasta:q}"
        " --upstream {params.upstream} --downstream {params.downstream} --flank {params.flank}"
        " --anchor {params.anchor} {params.aliases} {params.options}"
        " > {log:q} 2>&1"


rule dataset:
    input:
        promoters=rules.promoters.output.fasta,
        responses=[row["file"] for row in CONTRASTS] or config["responses"],
        treatments=optional_file("treatment_table"),
        proteins=optional_file("dataset", "proteins"),
    output:
        dataset="results/dataset.h5",
        audit="results/dataset.audit.tsv",
        record="results/dataset.h5.run.json",
    log:
        "logs/dataset.log",
    benchmark:
        "benchmarks/dataset.tsv"
    conda:
        "../envs/bioattn.yaml"
    container:
        config["container"]
    threads: 1
    resources:
        mem_mb=megabytes(4000),
        runtime=minutes(60),
    params:
        responses=response_arguments,
        treatments=lambda wildcards, input: option("--treatment-table", input.treatments),
        proteins=lambda wildcards, input: option("--proteins", input.proteins),
        holdout=" ".join(option("--holdout", part) for part in config["dataset"]["holdout"]),
        options=config["dataset"]["options"],
    message:
        "Joining promoters and responses in a dataset"
    shell:
        "bioattn prepare dataset {input.promoters:q} {params.responses} --output {output.dataset:q}"
        " {params.treatments} {params.proteins} {params.holdout} {params.options}"
        " > {log:q} 2>&1"
