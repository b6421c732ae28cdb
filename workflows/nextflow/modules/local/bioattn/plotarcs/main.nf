process BIOATTN_PLOTARCS {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(attention)

    output:
    tuple val(meta), path("${prefix}.arcs.svg"), emit: figure
    tuple val(meta), path("*.run.json"),         emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    export MPLCONFIGDIR="\$PWD/.matplotlib"

    bioattn plot arcs \\
        ${attention} \\
        --output ${prefix}.arcs.svg \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.arcs.svg
    touch ${prefix}.arcs.svg.run.json
    """
}
