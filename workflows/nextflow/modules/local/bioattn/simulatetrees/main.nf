process BIOATTN_SIMULATETREES {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    val meta

    output:
    tuple val(meta), path("${prefix}.trees"), emit: trees
    tuple val(meta), path("*.run.json"),      emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn simulate trees \\
        --output ${prefix}.trees \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.trees
    touch ${prefix}.trees/PAIRS.tsv
    touch ${prefix}.trees/simulation.json
    touch ${prefix}.trees.run.json
    """
}
