// One page of the sections that `bioattn report` wrote for each sample
process MULTIQC {
    tag "$meta.id"
    label 'process_single'
    container "community.wave.seqera.io/library/multiqc:1.35--c17fb751507e9dfc"

    input:
    tuple val(meta), path(folders)

    output:
    tuple val(meta), path("${prefix}.multiqc_report.html"), emit: report
    tuple val(meta), path("${prefix}.multiqc_data"), emit: data
    tuple val("${task.process}"), val('multiqc'), eval("multiqc --version | sed 's/.* //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    multiqc \\
        --no-version-check \\
        --filename ${prefix}.multiqc_report.html \\
        ${args} \\
        ${folders}
    mv ${prefix}.multiqc_report_data ${prefix}.multiqc_data
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.multiqc_data
    touch ${prefix}.multiqc_report.html
    """
}
