process BIOATTN_PREPAREPROMOTERS {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(genome), path(annotation)

    output:
    tuple val(meta), path("${prefix}.promoters.fa"),        emit: fasta
    tuple val(meta), path("${prefix}.promoters.bed"),       emit: bed
    tuple val(meta), path("${prefix}.promoters.audit.tsv"), emit: audit
    tuple val(meta), path("*.run.json"),                    emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    export BIOATTN_CACHE="\$PWD/.bioattn"

    bioattn prepare promoters \\
        ${genome} \\
        ${annotation} \\
        --output ${prefix}.promoters.fa \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.promoters.fa
    touch ${prefix}.promoters.bed
    touch ${prefix}.promoters.audit.tsv
    touch ${prefix}.promoters.fa.run.json
    """
}
