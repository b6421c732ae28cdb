process BIOATTN_RUNPHYLOFORMER {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(alignment)
    path parameters

    output:
    tuple val(meta), path("${prefix}.phylogeny"),    emit: phylogeny
    tuple val(meta), path("${prefix}.attention.h5"), emit: attention
    tuple val(meta), path("*.run.json"),             emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn run phyloformer \\
        ${alignment} \\
        --output ${prefix}.phylogeny \\
        --attention ${prefix}.attention.h5 \\
        --model ${parameters} \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.phylogeny
    touch ${prefix}.phylogeny/bme.nwk
    touch ${prefix}.phylogeny/distances.tsv
    touch ${prefix}.phylogeny/nj.nwk
    touch ${prefix}.phylogeny/phylogeny.json
    touch ${prefix}.attention.h5
    touch ${prefix}.phylogeny.run.json
    """
}
