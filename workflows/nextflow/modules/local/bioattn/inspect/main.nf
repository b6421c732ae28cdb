process BIOATTN_INSPECT {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(file)

    output:
    tuple val(meta), path("${prefix}.inspect.json"), emit: description
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn inspect \\
        ${file} \\
        --json \\
        ${args} \\
        > ${prefix}.inspect.json
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.inspect.json
    """
}
