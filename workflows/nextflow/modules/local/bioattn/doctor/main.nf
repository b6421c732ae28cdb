process BIOATTN_DOCTOR {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    val meta

    output:
    tuple val(meta), path("${prefix}.doctor.json"), emit: findings
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn doctor \\
        --json \\
        ${args} \\
        > ${prefix}.doctor.json
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.doctor.json
    """
}
