process BIOATTN_SIMULATEMOLECULES {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    val meta

    output:
    tuple val(meta), path("${prefix}.molecules"), emit: molecules
    tuple val(meta), path("*.run.json"),          emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn simulate molecules \\
        --output ${prefix}.molecules \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.molecules
    touch ${prefix}.molecules/molecules.tsv
    touch ${prefix}.molecules/truth.tsv
    touch ${prefix}.molecules/simulation.json
    touch ${prefix}.molecules.run.json
    """
}
