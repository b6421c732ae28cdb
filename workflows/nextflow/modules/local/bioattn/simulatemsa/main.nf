process BIOATTN_SIMULATEMSA {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    val meta

    output:
    tuple val(meta), path("${prefix}.families"), emit: families
    tuple val(meta), path("*.run.json"),         emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn simulate msa \\
        --output ${prefix}.families \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.families
    touch ${prefix}.families/PAIRS.tsv
    touch ${prefix}.families/simulation.json
    touch ${prefix}.families.run.json
    """
}
