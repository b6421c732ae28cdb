process BIOATTN_REPORT {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(results)
    path annotation

    output:
    tuple val(meta), path("${prefix}.report.html"), emit: html
    tuple val(meta), path("*.run.json"),            emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def annotation_option = annotation ? "--annotation ${annotation}" : ''
    """
    bioattn report \\
        ${results} \\
        --output ${prefix}.report.html \\
        ${annotation_option} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.report.html
    touch ${prefix}.report.html.run.json
    """
}
