process BIOATTN_EXPORTTRACKS {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(attention)

    output:
    tuple val(meta), path("${prefix}.tracks"), emit: tracks
    tuple val(meta), path("*.run.json"),       emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn export tracks \\
        ${attention} \\
        --output ${prefix}.tracks \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.tracks
    touch ${prefix}.tracks/tracks.json
    touch ${prefix}.tracks.run.json
    """
}
