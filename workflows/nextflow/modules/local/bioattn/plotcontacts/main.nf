process BIOATTN_PLOTCONTACTS {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(prediction)
    path structure

    output:
    tuple val(meta), path("${prefix}.contacts.svg"), emit: figure
    tuple val(meta), path("*.run.json"),             emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def structure_option = structure ? "--truth ${structure}" : ''
    """
    export MPLCONFIGDIR="\$PWD/.matplotlib"

    bioattn plot contacts \\
        ${prediction} \\
        --output ${prefix}.contacts.svg \\
        ${structure_option} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.contacts.svg
    touch ${prefix}.contacts.svg.run.json
    """
}
