process BIOATTN_SIMULATELANGUAGE {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    val meta

    output:
    tuple val(meta), path("${prefix}.sequences"), emit: sequences
    tuple val(meta), path("*.run.json"),          emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn simulate language \\
        --output ${prefix}.sequences \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.sequences
    touch ${prefix}.sequences/sequences.fa
    touch ${prefix}.sequences/truth.tsv
    touch ${prefix}.sequences/simulation.json
    touch ${prefix}.sequences.run.json
    """
}
