process BIOATTN_PREPAREMOLECULES {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(table)

    output:
    tuple val(meta), path("${prefix}.dataset.h5"),        emit: dataset
    tuple val(meta), path("${prefix}.dataset.audit.tsv"), emit: audit
    tuple val(meta), path("*.run.json"),                  emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn prepare molecules \\
        ${table} \\
        --output ${prefix}.dataset.h5 \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.dataset.h5
    touch ${prefix}.dataset.audit.tsv
    touch ${prefix}.dataset.h5.run.json
    """
}
