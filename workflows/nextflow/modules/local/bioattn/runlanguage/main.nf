process BIOATTN_RUNLANGUAGE {
    tag "$meta.id"
    label 'process_low'
    label 'process_gpu'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(model), path(sequences)

    output:
    tuple val(meta), path("${prefix}.scores.tsv"),    emit: scores
    tuple val(meta), path("${prefix}.embeddings.h5"), emit: embeddings
    tuple val(meta), path("*.run.json"),              emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn run language \\
        ${model} \\
        ${sequences} \\
        --output ${prefix}.scores.tsv \\
        --embeddings ${prefix}.embeddings.h5 \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.scores.tsv
    touch ${prefix}.embeddings.h5
    touch ${prefix}.scores.tsv.run.json
    """
}
