process BIOATTN_PLOTPAE {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(prediction)

    output:
    tuple val(meta), path("${prefix}.pae.svg"), emit: figure
    tuple val(meta), path("*.run.json"),        emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    export MPLCONFIGDIR="\$PWD/.matplotlib"

    bioattn plot pae \\
        ${prediction} \\
        --output ${prefix}.pae.svg \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.pae.svg
    touch ${prefix}.pae.svg.run.json
    """
}
