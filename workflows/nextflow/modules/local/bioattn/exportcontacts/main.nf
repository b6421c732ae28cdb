process BIOATTN_EXPORTCONTACTS {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(attention)
    path regression

    output:
    tuple val(meta), path("${prefix}.contacts.tsv"), emit: contacts
    tuple val(meta), path("*.run.json"),             emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def regression_option = regression ? "--regression ${regression}" : ''
    """
    bioattn export contacts \\
        ${attention} \\
        --output ${prefix}.contacts.tsv \\
        ${regression_option} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.contacts.tsv
    touch ${prefix}.contacts.tsv.run.json
    """
}
