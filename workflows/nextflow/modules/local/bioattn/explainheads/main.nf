process BIOATTN_EXPLAINHEADS {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(model), path(dataset)

    output:
    tuple val(meta), path("${prefix}.heads"), emit: heads
    tuple val(meta), path("*.run.json"),      emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn explain heads \\
        ${model} \\
        ${dataset} \\
        --output ${prefix}.heads \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.heads
    touch ${prefix}.heads/heads.tsv
    touch ${prefix}.heads.run.json
    """
}
