process BIOATTN_SIMULATEPROMOTERS {
    tag "$meta.id"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    val meta

    output:
    tuple val(meta), path("${prefix}.simulated"), emit: simulation
    tuple val(meta), path("*.run.json"),          emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn simulate promoters \\
        --output ${prefix}.simulated \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.simulated
    touch ${prefix}.simulated/genome.fa
    touch ${prefix}.simulated/annotation.gff3
    touch ${prefix}.simulated/responses.tsv
    touch ${prefix}.simulated/treatments.tsv
    touch ${prefix}.simulated/truth.tsv
    touch ${prefix}.simulated/motifs.meme
    touch ${prefix}.simulated/simulation.json
    touch ${prefix}.simulated.run.json
    """
}
