process BIOATTN_EXPORTSTRUCTURE {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(attention), path(structure)

    output:
    tuple val(meta), path("${prefix}.painted.pdb"), emit: structure
    tuple val(meta), path("*.run.json"),            emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn export structure \\
        ${attention} \\
        ${structure} \\
        --output ${prefix}.painted.pdb \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.painted.pdb
    touch ${prefix}.painted.pdb.run.json
    """
}
