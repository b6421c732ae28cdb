process BIOATTN_EXPLAINRESPONSECURVE {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(responses), path(treatments)

    output:
    tuple val(meta), path("${prefix}.curves.json"), emit: curves
    tuple val(meta), path("*.run.json"),            emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn explain response-curve \\
        ${responses} \\
        ${treatments} \\
        --output ${prefix}.curves.json \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.curves.json
    touch ${prefix}.curves.json.run.json
    """
}
