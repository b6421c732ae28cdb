//
// A genome, its annotation and the responses of genes to treatments: a model, its attention, and what both are worth
//

include { BIOATTN_PREPARE_PROMOTERS } from '../modules/bioattn'
include { BIOATTN_PREPARE_DATASET   } from '../modules/bioattn'
include { BIOATTN_TRAIN_PROMOTER    } from '../modules/bioattn'
include { BIOATTN_RUN_PROMOTER      } from '../modules/bioattn'
include { BIOATTN_EXPORT_ATTENTION  } from '../modules/bioattn'
include { BIOATTN_MERGE             } from '../modules/bioattn'
include { BIOATTN_EXPLAIN_CHECK     } from '../modules/bioattn'
include { BIOATTN_EXPORT_TRACKS     } from '../modules/bioattn'
include { BIOATTN_EXPORT_MOTIFS     } from '../modules/bioattn'
include { BIOATTN_REPORT            } from '../modules/bioattn'
include { BIOATTN_REPORT_MULTIQC    } from '../modules/bioattn'

workflow PROMOTERS {

    take:
    ch_samples     // channel: [ val(meta), path(genome), path(annotation), path(responses), path(treatments) or [] ]
    train_config   // path(toml) or []
    motif_database // path(motifs) or []
    shards         // integer: parts that attention is written in, each a task of its own

    main:

    BIOATTN_PREPARE_PROMOTERS(
        ch_samples.map { meta, genome, annotation, _responses, _treatments -> [meta, genome, annotation] }
    )
    def ch_promoters = BIOATTN_PREPARE_PROMOTERS.out.fasta

    BIOATTN_PREPARE_DATASET(
        ch_promoters.join(
            ch_samples.map { meta, _genome, _annotation, responses, treatments -> [meta, responses, treatments] }
        )
    )
    def ch_dataset = BIOATTN_PREPARE_DATASET.out.dataset

    BIOATTN_TRAIN_PROMOTER(ch_dataset.map { meta, dataset -> [meta, dataset, train_config] })
    def ch_model = BIOATTN_TRAIN_PROMOTER.out.model
    def ch_model_promoters = ch_model.join(ch_promoters)

    BIOATTN_RUN_PROMOTER(ch_model_promoters)

    //
    // Attention of all promoters; by shards, which nextflow.config reads from `meta.shard`, if asked for
    //
    def parts = shards > 1 ? (1..shards).collect { number -> [shard: "${number}/${shards}"] } : [[:]]
    BIOATTN_EXPORT_ATTENTION(
        ch_model_promoters
            .combine(channel.fromList(parts))
            .map { meta, model, promoters, part -> [meta + part, model, promoters] }
    )
    def ch_attention = BIOATTN_EXPORT_ATTENTION.out.attention
    if (shards > 1) {
        BIOATTN_MERGE(
            ch_attention
                .map { meta, attention -> [meta - meta.subMap(['shard']), attention] }
                .groupTuple(size: shards)
        )
        ch_attention = BIOATTN_MERGE.out.attention
    }

    //
    // What it shows, and whether it may be believed
    //
    BIOATTN_EXPLAIN_CHECK(ch_model_promoters.join(ch_dataset))
    BIOATTN_EXPORT_TRACKS(ch_attention)
    BIOATTN_EXPORT_MOTIFS(
        ch_attention
            .join(ch_promoters)
            .map { meta, attention, promoters -> [meta, attention, promoters, motif_database] }
    )

    BIOATTN_REPORT(
        ch_model_promoters
            .join(ch_dataset)
            .join(ch_attention)
            .join(BIOATTN_EXPLAIN_CHECK.out.check)
            .join(BIOATTN_EXPORT_MOTIFS.out.motifs)
            .map { meta, model, promoters, dataset, attention, check, motifs ->
                [meta, [model, promoters, dataset, attention, check, motifs], []]
            }
    )

    BIOATTN_REPORT_MULTIQC(
        ch_model_promoters
            .join(BIOATTN_PREPARE_PROMOTERS.out.audit)
            .join(ch_dataset)
            .join(BIOATTN_EXPLAIN_CHECK.out.check)
            .map { meta, model, promoters, audit, dataset, check ->
                [meta, [model, promoters, audit, dataset, check]]
            }
    )

    emit:
    model       = ch_model                             // channel: [ val(meta), path(folder) ]
    predictions = BIOATTN_RUN_PROMOTER.out.predictions // channel: [ val(meta), path(tsv) ]
    attention   = ch_attention                         // channel: [ val(meta), path(h5) ]
    check       = BIOATTN_EXPLAIN_CHECK.out.check      // channel: [ val(meta), path(json) ]
    tracks      = BIOATTN_EXPORT_TRACKS.out.tracks     // channel: [ val(meta), path(folder) ]
    motifs      = BIOATTN_EXPORT_MOTIFS.out.motifs     // channel: [ val(meta), path(folder) ]
    report      = BIOATTN_REPORT.out.html              // channel: [ val(meta), path(html) ]
    multiqc     = BIOATTN_REPORT_MULTIQC.out.multiqc   // channel: [ val(meta), path(folder) ]
}
