process BIOATTN_PREPARETEMPLATES {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(query), path(structures)

    output:
    tuple val(meta), path("${prefix}.templates.h5"), emit: templates
    tuple val(meta), path("*.run.json"),             emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn prepare templates \\
        ${query} \\
        ${structures} \\
        --output ${prefix}.templates.h5 \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.templates.h5
    touch ${prefix}.templates.h5.run.json
    """
}
