process BIOATTN_EXPLAINATTRIBUTION {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(model), path(promoters)

    output:
    tuple val(meta), path("${prefix}.attribution.h5"), emit: attribution
    tuple val(meta), path("*.run.json"),               emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn explain attribution \\
        ${model} \\
        ${promoters} \\
        --output ${prefix}.attribution.h5 \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.attribution.h5
    touch ${prefix}.attribution.h5.run.json
    """
}
