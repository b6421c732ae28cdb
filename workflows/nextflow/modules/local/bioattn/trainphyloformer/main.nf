process BIOATTN_TRAINPHYLOFORMER {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(trees)
    path config

    output:
    tuple val(meta), path("${prefix}.model"), emit: model
    tuple val(meta), path("*.run.json"),      emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def config_option = config ? "--config ${config}" : ''
    """
    bioattn train phyloformer \\
        ${trees}/PAIRS.tsv \\
        --output ${prefix}.model \\
        --threads ${task.cpus} \\
        ${config_option} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.model
    touch ${prefix}.model/config.json
    touch ${prefix}.model/model.safetensors
    touch ${prefix}.model.run.json
    """
}
