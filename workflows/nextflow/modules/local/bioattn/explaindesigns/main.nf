process BIOATTN_EXPLAINDESIGNS {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(designs), path(model), path(dataset)

    output:
    tuple val(meta), path("${prefix}.designs.json"), emit: check
    tuple val(meta), path("*.run.json"),             emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn explain designs \\
        ${designs} \\
        ${model} \\
        ${dataset} \\
        --output ${prefix}.designs.json \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.designs.json
    touch ${prefix}.designs.json.run.json
    """
}
