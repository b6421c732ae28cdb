process BIOATTN_EXPORTPARAMETERS {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(model)

    output:
    tuple val(meta), path("${prefix}.parameters.npz"), emit: parameters
    tuple val(meta), path("*.run.json"),               emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn export parameters \\
        ${model} \\
        --output ${prefix}.parameters.npz \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.parameters.npz
    touch ${prefix}.parameters.npz.run.json
    """
}
