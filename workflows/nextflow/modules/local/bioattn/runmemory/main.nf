process BIOATTN_RUNMEMORY {
    tag "$meta.id"
    label 'process_low'
    label 'process_gpu'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(model), path(facts)

    output:
    tuple val(meta), path("${prefix}.answers.tsv"),  emit: answers
    tuple val(meta), path("${prefix}.attention.h5"), emit: attention
    tuple val(meta), path("*.run.json"),             emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn run memory \\
        ${model} \\
        ${facts} \\
        --output ${prefix}.answers.tsv \\
        --attention ${prefix}.attention.h5 \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.answers.tsv
    touch ${prefix}.attention.h5
    touch ${prefix}.answers.tsv.run.json
    """
}
