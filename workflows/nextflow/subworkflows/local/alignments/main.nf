//
// Protein alignments: contacts, structures where the parameters can, attention, and contacts out of attention
//

include { BIOATTN_PREPAREMSA     } from '../../../modules/local/bioattn/preparemsa/main'
include { BIOATTN_RUNEVOFORMER   } from '../../../modules/local/bioattn/runevoformer/main'
include { BIOATTN_EXPORTCONTACTS } from '../../../modules/local/bioattn/exportcontacts/main'
include { BIOATTN_REPORT         } from '../../../modules/local/bioattn/report/main'
include { BIOATTN_EXPORTMULTIQC  } from '../../../modules/local/bioattn/exportmultiqc/main'

workflow ALIGNMENTS {

    take:
    ch_samples // channel: [ val(meta), path(alignment) ]
    model      // path: model folder, AlphaFold parameters or OpenFold state dict
    regression // path(json) or []: what each head tells of contacts

    main:

    BIOATTN_PREPAREMSA(ch_samples)
    def ch_alignment = BIOATTN_PREPAREMSA.out.alignment

    BIOATTN_RUNEVOFORMER(ch_alignment.map { meta, alignment -> [meta, alignment, []] }, model)
    def ch_prediction = BIOATTN_RUNEVOFORMER.out.prediction
    def ch_attention = BIOATTN_RUNEVOFORMER.out.attention

    BIOATTN_EXPORTCONTACTS(ch_attention, regression)

    BIOATTN_REPORT(
        ch_prediction
            .join(ch_attention)
            .join(ch_alignment)
            .map { meta, prediction, attention, alignment -> [meta, [prediction, attention, alignment]] },
        []
    )

    BIOATTN_EXPORTMULTIQC(
        BIOATTN_PREPAREMSA.out.statistics
            .join(ch_prediction)
            .map { meta, statistics, prediction -> [meta, [statistics, prediction]] }
    )

    emit:
    prediction = ch_prediction                       // channel: [ val(meta), path(folder) ]
    attention  = ch_attention                        // channel: [ val(meta), path(h5) ]
    contacts   = BIOATTN_EXPORTCONTACTS.out.contacts // channel: [ val(meta), path(tsv) ]
    report     = BIOATTN_REPORT.out.html             // channel: [ val(meta), path(html) ]
    multiqc    = BIOATTN_EXPORTMULTIQC.out.multiqc   // channel: [ val(meta), path(folder) ]
}
