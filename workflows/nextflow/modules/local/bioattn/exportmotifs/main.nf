process BIOATTN_EXPORTMOTIFS {
    tag "$meta.id"
    label 'process_low'

    conda "${moduleDir}/environment.yml"
    container "bioattn:0.1.0"

    input:
    tuple val(meta), path(attention), path(promoters)
    path database

    output:
    tuple val(meta), path("${prefix}.motifs"), emit: motifs
    tuple val(meta), path("*.run.json"),       emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions_bioattn

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def database_option = database ? "--database ${database}" : ''
    """
    export MPLCONFIGDIR="\$PWD/.matplotlib"
    export NUMBA_CACHE_DIR="\$PWD/.numba"
    export OMP_NUM_THREADS=${task.cpus}

    bioattn export motifs \\
        ${attention} \\
        --output ${prefix}.motifs \\
        --promoters ${promoters} \\
        ${database_option} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.motifs
    touch ${prefix}.motifs/motifs.json
    touch ${prefix}.motifs.run.json
    """
}
