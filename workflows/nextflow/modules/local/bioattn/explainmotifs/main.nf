process BIOATTN_EXPLAINMOTIFS {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(results), path(expected)

    output:
    tuple val(meta), path("${prefix}.known-motifs.tsv"), emit: motifs
    tuple val(meta), path("*.run.json"),                 emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn explain motifs \\
        ${results} \\
        --output ${prefix}.known-motifs.tsv \\
        --expected ${expected} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.known-motifs.tsv
    touch ${prefix}.known-motifs.tsv.run.json
    """
}
