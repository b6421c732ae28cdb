process BIOATTN_MERGE {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(parts)

    output:
    tuple val(meta), path("${prefix}.attention.h5"), emit: attention
    tuple val(meta), path("*.run.json"),             emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn merge \\
        ${parts} \\
        --output ${prefix}.attention.h5 \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.attention.h5
    touch ${prefix}.attention.h5.run.json
    """
}
