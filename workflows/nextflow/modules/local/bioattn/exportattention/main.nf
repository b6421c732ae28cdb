process BIOATTN_EXPORTATTENTION {
    tag "$meta.id"
    label 'process_low'
    label 'process_gpu'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(model), path(promoters)
    val shard

    output:
    tuple val(meta), path("${stem}.attention.h5"), emit: attention
    tuple val(meta), path("*.run.json"),           emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    stem = shard ? "${prefix}.${shard.replace('/', 'of')}" : prefix
    def shard_option = shard ? "--shard ${shard}" : ''
    """
    bioattn export attention \\
        ${model} \\
        ${promoters} \\
        --output ${stem}.attention.h5 \\
        --threads ${task.cpus} \\
        ${shard_option} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    stem = shard ? "${prefix}.${shard.replace('/', 'of')}" : prefix
    """
    touch ${stem}.attention.h5
    touch ${stem}.attention.h5.run.json
    """
}
