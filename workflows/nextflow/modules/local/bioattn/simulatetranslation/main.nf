process BIOATTN_SIMULATETRANSLATION {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    val meta

    output:
    tuple val(meta), path("${prefix}.pairs"), emit: pairs
    tuple val(meta), path("*.run.json"),      emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn simulate translation \\
        --output ${prefix}.pairs \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.pairs
    touch ${prefix}.pairs/source.fa
    touch ${prefix}.pairs/target.fa
    touch ${prefix}.pairs/alignment.tsv
    touch ${prefix}.pairs/simulation.json
    touch ${prefix}.pairs.run.json
    """
}
