process BIOATTN_RUNEVOFORMER {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(alignment), path(templates)
    path model

    output:
    tuple val(meta), path("${prefix}.prediction"),   emit: prediction
    tuple val(meta), path("${prefix}.attention.h5"), emit: attention
    tuple val(meta), path("*.run.json"),             emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def templates_option = templates ? "--templates ${templates}" : ''
    """
    bioattn run evoformer \\
        ${alignment} \\
        --output ${prefix}.prediction \\
        --attention ${prefix}.attention.h5 \\
        --model ${model} \\
        --threads ${task.cpus} \\
        ${templates_option} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.prediction
    touch ${prefix}.prediction/scores.json
    touch ${prefix}.attention.h5
    touch ${prefix}.prediction.run.json
    """
}
