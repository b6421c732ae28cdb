process BIOATTN_PREPAREMSA {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(alignment)

    output:
    tuple val(meta), path("${prefix}.prepared.a3m"),  emit: alignment
    tuple val(meta), path("${prefix}.prepared.json"), emit: statistics
    tuple val(meta), path("*.run.json"),              emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn prepare msa \\
        ${alignment} \\
        --output ${prefix}.prepared.a3m \\
        --stats ${prefix}.prepared.json \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.prepared.a3m
    touch ${prefix}.prepared.json
    touch ${prefix}.prepared.a3m.run.json
    """
}
