#!/usr/bin/env nextflow
//
// Genomes with responses, and alignments, each as a table of samples, to models, attention and reports
//

include { samplesheetToList  } from 'plugin/nf-schema'
include { validateParameters } from 'plugin/nf-schema'

include { PROMOTERS          } from './subworkflows/promoters'
include { ALIGNMENTS         } from './subworkflows/alignments'
include { MULTIQC            } from './modules/multiqc'

workflow {

    main:

    if (params.validate_params) {
        validateParameters()
    }
    if (!params.promoters && !params.alignments) {
        error("Nothing to do: give --promoters, --alignments or both, each a table of samples")
    }

    def ch_multiqc = channel.empty()

    if (params.promoters) {
        PROMOTERS(
            channel.fromList(samplesheetToList(params.promoters, "${projectDir}/assets/schema_promoters.json")),
            params.train_config ? file(params.train_config, checkIfExists: true) : [],
            params.motif_database ? file(params.motif_database, checkIfExists: true) : [],
            params.shards
        )
        ch_multiqc = ch_multiqc.mix(PROMOTERS.out.multiqc)
    }

    if (params.alignments) {
        ALIGNMENTS(
            channel.fromList(samplesheetToList(params.alignments, "${projectDir}/assets/schema_alignments.json")),
            file(params.evoformer_model, checkIfExists: true),
            params.contact_regression ? file(params.contact_regression, checkIfExists: true) : []
        )
        ch_multiqc = ch_multiqc.mix(ALIGNMENTS.out.multiqc)
    }

    MULTIQC(
        ch_multiqc
            .map { _meta, folder -> folder }
            .collect(sort: true)
            .map { folders -> [[id: 'bioattn'], folders] }
    )

    //
    // Versions of all tools that ran
    //
    channel.topic('versions')
        .map { process, tool, version -> "${process.tokenize(':')[-1]}:\n  ${tool}: \"${version}\"" }
        .unique()
        .collectFile(
            name: 'bioattn_software_versions.yml',
            storeDir: "${params.outdir}/pipeline_info",
            sort: true,
            newLine: true
        )
}
