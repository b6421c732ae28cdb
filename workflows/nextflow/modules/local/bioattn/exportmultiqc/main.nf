process BIOATTN_EXPORTMULTIQC {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(results)

    output:
    tuple val(meta), path("${prefix}.multiqc"), emit: multiqc
    tuple val(meta), path("*.run.json"),        emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn export multiqc \\
        ${results} \\
        --output ${prefix}.multiqc \\
        --sample ${prefix} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.multiqc
    touch ${prefix}.multiqc/bioattn_general_mqc.json
    touch ${prefix}.multiqc.run.json
    """
}
