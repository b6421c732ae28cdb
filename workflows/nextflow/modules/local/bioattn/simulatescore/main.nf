process BIOATTN_SIMULATESCORE {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(attention), path(truth)

    output:
    tuple val(meta), path("${prefix}.scores.json"), emit: scores
    tuple val(meta), path("*.run.json"),            emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn simulate score \\
        ${attention} \\
        ${truth} \\
        --output ${prefix}.scores.json \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.scores.json
    touch ${prefix}.scores.json.run.json
    """
}
