//
// Protein alignments: contacts, structures where the parameters can, attention, and contacts out of attention
//

include { BIOATTN_PREPARE_MSA     } from '../modules/bioattn'
include { BIOATTN_RUN_EVOFORMER   } from '../modules/bioattn'
include { BIOATTN_EXPORT_CONTACTS } from '../modules/bioattn'
include { BIOATTN_REPORT          } from '../modules/bioattn'
include { BIOATTN_REPORT_MULTIQC  } from '../modules/bioattn'

workflow ALIGNMENTS {

    take:
    ch_samples // channel: [ val(meta), path(alignment) ]
    model      // path: model folder, AlphaFold parameters or OpenFold state dict
    regression // path(json) or []: the weight of each head in contacts

    main:

    BIOATTN_PREPARE_MSA(ch_samples)
    def ch_alignment = BIOATTN_PREPARE_MSA.out.alignment

    BIOATTN_RUN_EVOFORMER(ch_alignment.map { meta, alignment -> [meta, alignment, model, []] })
    def ch_prediction = BIOATTN_RUN_EVOFORMER.out.prediction
    def ch_attention = BIOATTN_RUN_EVOFORMER.out.attention

    BIOATTN_EXPORT_CONTACTS(ch_attention.map { meta, attention -> [meta, attention, regression] })

    BIOATTN_REPORT(
        ch_prediction
            .join(ch_attention)
            .join(ch_alignment)
            .map { meta, prediction, attention, alignment -> [meta, [prediction, attention, alignment], []] }
    )

    BIOATTN_REPORT_MULTIQC(
        BIOATTN_PREPARE_MSA.out.stats
            .join(ch_prediction)
            .map { meta, statistics, prediction -> [meta, [statistics, prediction]] }
    )

    emit:
    prediction = ch_prediction                        // channel: [ val(meta), path(folder) ]
    attention  = ch_attention                         // channel: [ val(meta), path(h5) ]
    contacts   = BIOATTN_EXPORT_CONTACTS.out.contacts // channel: [ val(meta), path(tsv) ]
    report     = BIOATTN_REPORT.out.html              // channel: [ val(meta), path(html) ]
    multiqc    = BIOATTN_REPORT_MULTIQC.out.multiqc   // channel: [ val(meta), path(folder) ]
}
