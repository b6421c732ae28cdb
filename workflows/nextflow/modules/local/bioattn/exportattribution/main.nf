process BIOATTN_EXPORTATTRIBUTION {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(attribution)

    output:
    tuple val(meta), path("${prefix}.arrays"), emit: arrays
    tuple val(meta), path("*.run.json"),       emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn export attribution \\
        ${attribution} \\
        --output ${prefix}.arrays \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.arrays
    touch ${prefix}.arrays/sequences.npz
    touch ${prefix}.arrays/genes.tsv
    touch ${prefix}.arrays/treatments.tsv
    touch ${prefix}.arrays.run.json
    """
}
