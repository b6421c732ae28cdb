//
// A genome, its annotation and the responses of genes to treatments: a model, its attention, and what both are worth
//

include { BIOATTN_PREPAREPROMOTERS } from '../../../modules/local/bioattn/preparepromoters/main'
include { BIOATTN_PREPAREDATASET   } from '../../../modules/local/bioattn/preparedataset/main'
include { BIOATTN_TRAINPROMOTER    } from '../../../modules/local/bioattn/trainpromoter/main'
include { BIOATTN_RUNPROMOTER      } from '../../../modules/local/bioattn/runpromoter/main'
include { BIOATTN_EXPORTATTENTION  } from '../../../modules/local/bioattn/exportattention/main'
include { BIOATTN_MERGE            } from '../../../modules/local/bioattn/merge/main'
include { BIOATTN_EXPLAINCHECK     } from '../../../modules/local/bioattn/explaincheck/main'
include { BIOATTN_EXPORTTRACKS     } from '../../../modules/local/bioattn/exporttracks/main'
include { BIOATTN_EXPORTMOTIFS     } from '../../../modules/local/bioattn/exportmotifs/main'
include { BIOATTN_REPORT           } from '../../../modules/local/bioattn/report/main'
include { BIOATTN_EXPORTMULTIQC    } from '../../../modules/local/bioattn/exportmultiqc/main'

workflow PROMOTERS {

    take:
    ch_samples     // channel: [ val(meta), path(genome), path(annotation), path(responses), path(treatments) or [] ]
    train_config   // path(toml) or []
    motif_database // path(motifs) or []
    shards         // integer: parts that attention is written in, each a task of its own

    main:

    BIOATTN_PREPAREPROMOTERS(
        ch_samples.map { meta, genome, annotation, _responses, _treatments -> [meta, genome, annotation] }
    )
    def ch_promoters = BIOATTN_PREPAREPROMOTERS.out.fasta

    BIOATTN_PREPAREDATASET(
        ch_promoters.join(
            ch_samples.map { meta, _genome, _annotation, responses, treatments -> [meta, responses, treatments] }
        )
    )
    def ch_dataset = BIOATTN_PREPAREDATASET.out.dataset

    BIOATTN_TRAINPROMOTER(ch_dataset, train_config)
    def ch_model = BIOATTN_TRAINPROMOTER.out.model
    def ch_model_promoters = ch_model.join(ch_promoters)

    BIOATTN_RUNPROMOTER(ch_model_promoters)

    //
    // Attention of all promoters, by shards if asked for
    //
    def parts = shards > 1 ? (1..shards).collect { number -> "${number}/${shards}" } : ['']
    def ch_parts = ch_model_promoters
        .combine(channel.fromList(parts))
        .multiMap { meta, model, promoters, part ->
            files: [meta, model, promoters]
            shard: part
        }
    BIOATTN_EXPORTATTENTION(ch_parts.files, ch_parts.shard)
    def ch_attention = BIOATTN_EXPORTATTENTION.out.attention
    if (shards > 1) {
        BIOATTN_MERGE(ch_attention.groupTuple(size: shards))
        ch_attention = BIOATTN_MERGE.out.attention
    }

    //
    // What it shows, and whether it may be believed
    //
    BIOATTN_EXPLAINCHECK(ch_model_promoters.join(ch_dataset))
    BIOATTN_EXPORTTRACKS(ch_attention)
    BIOATTN_EXPORTMOTIFS(ch_attention.join(ch_promoters), motif_database)

    BIOATTN_REPORT(
        ch_model_promoters
            .join(ch_dataset)
            .join(ch_attention)
            .join(BIOATTN_EXPLAINCHECK.out.check)
            .join(BIOATTN_EXPORTMOTIFS.out.motifs)
            .map { meta, model, promoters, dataset, attention, check, motifs ->
                [meta, [model, promoters, dataset, attention, check, motifs]]
            },
        []
    )

    BIOATTN_EXPORTMULTIQC(
        ch_model_promoters
            .join(BIOATTN_PREPAREPROMOTERS.out.audit)
            .join(ch_dataset)
            .join(BIOATTN_EXPLAINCHECK.out.check)
            .map { meta, model, promoters, audit, dataset, check ->
                [meta, [model, promoters, audit, dataset, check]]
            }
    )

    emit:
    model       = ch_model                          // channel: [ val(meta), path(folder) ]
    predictions = BIOATTN_RUNPROMOTER.out.predictions // channel: [ val(meta), path(tsv) ]
    attention   = ch_attention                      // channel: [ val(meta), path(h5) ]
    check       = BIOATTN_EXPLAINCHECK.out.check    // channel: [ val(meta), path(json) ]
    tracks      = BIOATTN_EXPORTTRACKS.out.tracks   // channel: [ val(meta), path(folder) ]
    motifs      = BIOATTN_EXPORTMOTIFS.out.motifs   // channel: [ val(meta), path(folder) ]
    report      = BIOATTN_REPORT.out.html           // channel: [ val(meta), path(html) ]
    multiqc     = BIOATTN_EXPORTMULTIQC.out.multiqc // channel: [ val(meta), path(folder) ]
}
