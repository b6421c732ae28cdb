// A process for each command of bioattn. Written by workflows/commands.py.
//
// Input: [ meta, inputs in this order ], where `[]` stands for an optional one that there is not.
// task.ext.args holds more options, task.ext.prefix the beginning of the names of outputs.

// Cut the promoter of every gene: FASTA, BED and an audit of all genes
process BIOATTN_PREPARE_PROMOTERS {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(genome), path(annotation)

    output:
    tuple val(meta), path("${prefix}.promoters.fa"), emit: fasta
    tuple val(meta), path("${prefix}.promoters.bed"), emit: bed
    tuple val(meta), path("${prefix}.promoters.audit.tsv"), emit: audit
    tuple val(meta), path("bioattn-records/${prefix}.promoters.fa.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn prepare promoters \\
        ${genome} \\
        ${annotation} \\
        --output ${prefix}.promoters.fa \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.promoters.fa ${prefix}.promoters.bed ${prefix}.promoters.audit.tsv bioattn-records/${prefix}.promoters.fa.json
    """
}

// Join promoters, responses and treatments into a dataset for training, split without leakage
process BIOATTN_PREPARE_DATASET {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(promoters), path(responses), path(treatment_table)

    output:
    tuple val(meta), path("${prefix}.dataset.h5"), emit: dataset
    tuple val(meta), path("${prefix}.dataset.audit.tsv"), emit: audit
    tuple val(meta), path("bioattn-records/${prefix}.dataset.h5.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def treatment_table_option = treatment_table ? "--treatment-table ${treatment_table}" : ''
    """
    bioattn prepare dataset \\
        ${promoters} \\
        ${responses} \\
        --output ${prefix}.dataset.h5 \\
        ${treatment_table_option} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.dataset.h5 ${prefix}.dataset.audit.tsv bioattn-records/${prefix}.dataset.h5.json
    """
}

// Make a dataset of pairs of sequences for training, split without leakage
process BIOATTN_PREPARE_TRANSLATION {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(pairs)

    output:
    tuple val(meta), path("${prefix}.dataset.h5"), emit: dataset
    tuple val(meta), path("${prefix}.dataset.audit.tsv"), emit: audit
    tuple val(meta), path("bioattn-records/${prefix}.dataset.h5.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn prepare translation \\
        ${pairs} \\
        --output ${prefix}.dataset.h5 \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.dataset.h5 ${prefix}.dataset.audit.tsv bioattn-records/${prefix}.dataset.h5.json
    """
}

// Make a dataset of molecules with measured values, cleaned and split without leakage (needs RDKit)
process BIOATTN_PREPARE_MOLECULES {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(table)

    output:
    tuple val(meta), path("${prefix}.dataset.h5"), emit: dataset
    tuple val(meta), path("${prefix}.dataset.audit.tsv"), emit: audit
    tuple val(meta), path("bioattn-records/${prefix}.dataset.h5.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn prepare molecules \\
        ${table} \\
        --output ${prefix}.dataset.h5 \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.dataset.h5 ${prefix}.dataset.audit.tsv bioattn-records/${prefix}.dataset.h5.json
    """
}

// Make a dataset of sequences for training, split without leakage
process BIOATTN_PREPARE_LANGUAGE {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(fasta)

    output:
    tuple val(meta), path("${prefix}.dataset.h5"), emit: dataset
    tuple val(meta), path("${prefix}.dataset.audit.tsv"), emit: audit
    tuple val(meta), path("bioattn-records/${prefix}.dataset.h5.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn prepare language \\
        ${fasta} \\
        --output ${prefix}.dataset.h5 \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.dataset.h5 ${prefix}.dataset.audit.tsv bioattn-records/${prefix}.dataset.h5.json
    """
}

// Join alignments and structures into a dataset of contacts for training
process BIOATTN_PREPARE_CONTACTS {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(pairs)

    output:
    tuple val(meta), path("${prefix}.dataset.h5"), emit: dataset
    tuple val(meta), path("${prefix}.dataset.audit.tsv"), emit: audit
    tuple val(meta), path("bioattn-records/${prefix}.dataset.h5.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn prepare contacts \\
        ${pairs}/PAIRS.tsv \\
        --output ${prefix}.dataset.h5 \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.dataset.h5 ${prefix}.dataset.audit.tsv bioattn-records/${prefix}.dataset.h5.json
    """
}

// Lay known structures on a query, as templates for run evoformer --templates
process BIOATTN_PREPARE_TEMPLATES {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(query), path(structures)

    output:
    tuple val(meta), path("${prefix}.templates.h5"), emit: templates
    tuple val(meta), path("bioattn-records/${prefix}.templates.h5.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn prepare templates \\
        ${query} \\
        ${structures} \\
        --output ${prefix}.templates.h5 \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.templates.h5 bioattn-records/${prefix}.templates.h5.json
    """
}

// Filter an alignment, or build one by searching a database, and write it as A3M with its statistics
process BIOATTN_PREPARE_MSA {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(alignment)

    output:
    tuple val(meta), path("${prefix}.prepared.a3m"), emit: alignment
    tuple val(meta), path("${prefix}.prepared.json"), emit: stats
    tuple val(meta), path("bioattn-records/${prefix}.prepared.a3m.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn prepare msa \\
        ${alignment} \\
        --output ${prefix}.prepared.a3m \\
        --stats ${prefix}.prepared.json \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.prepared.a3m ${prefix}.prepared.json bioattn-records/${prefix}.prepared.a3m.json
    """
}

// Train a model that predicts every promoter's response to every treatment
process BIOATTN_TRAIN_PROMOTER {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    input:
    tuple val(meta), path(dataset), path(config)

    output:
    tuple val(meta), path("${prefix}.model"), emit: model
    tuple val(meta), path("bioattn-records/${prefix}.model.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def config_option = config ? "--config ${config}" : ''
    """
    bioattn train promoter \\
        ${dataset} \\
        --output ${prefix}.model \\
        ${config_option} \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.model bioattn-records
    touch bioattn-records/${prefix}.model.json
    """
}

// Train an MSA/pair model on distances, contacts and masked residues
process BIOATTN_TRAIN_EVOFORMER {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    input:
    tuple val(meta), path(dataset), path(config)

    output:
    tuple val(meta), path("${prefix}.model"), emit: model
    tuple val(meta), path("bioattn-records/${prefix}.model.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def config_option = config ? "--config ${config}" : ''
    """
    bioattn train evoformer \\
        ${dataset} \\
        --output ${prefix}.model \\
        ${config_option} \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.model bioattn-records
    touch bioattn-records/${prefix}.model.json
    """
}

// Train a language model on sequences: an encoder, a decoder, or an encoder with a decoder
process BIOATTN_TRAIN_LANGUAGE {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    input:
    tuple val(meta), path(dataset), path(start), path(targets), path(config)

    output:
    tuple val(meta), path("${prefix}.model"), emit: model
    tuple val(meta), path("bioattn-records/${prefix}.model.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def start_option = start ? "--from ${start}" : ''
    def targets_option = targets ? "--targets ${targets}" : ''
    def config_option = config ? "--config ${config}" : ''
    """
    bioattn train language \\
        ${dataset} \\
        --output ${prefix}.model \\
        ${start_option} \\
        ${targets_option} \\
        ${config_option} \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.model bioattn-records
    touch bioattn-records/${prefix}.model.json
    """
}

// Train a model that predicts measured values, or classes, from molecules
process BIOATTN_TRAIN_MOLECULE {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    input:
    tuple val(meta), path(dataset), path(config)

    output:
    tuple val(meta), path("${prefix}.model"), emit: model
    tuple val(meta), path("bioattn-records/${prefix}.model.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def config_option = config ? "--config ${config}" : ''
    """
    bioattn train molecule \\
        ${dataset} \\
        --output ${prefix}.model \\
        ${config_option} \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.model bioattn-records
    touch bioattn-records/${prefix}.model.json
    """
}

// Train a model of evolutionary distances on alignments with known trees
process BIOATTN_TRAIN_PHYLOFORMER {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    input:
    tuple val(meta), path(pairs), path(config)

    output:
    tuple val(meta), path("${prefix}.model"), emit: model
    tuple val(meta), path("bioattn-records/${prefix}.model.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def config_option = config ? "--config ${config}" : ''
    """
    bioattn train phyloformer \\
        ${pairs}/PAIRS.tsv \\
        --output ${prefix}.model \\
        ${config_option} \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.model bioattn-records
    touch bioattn-records/${prefix}.model.json
    """
}

// Train a translation model on pairs of sequences, with the true prefix given at every step
process BIOATTN_TRAIN_TRANSLATION {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    input:
    tuple val(meta), path(dataset), path(config)

    output:
    tuple val(meta), path("${prefix}.model"), emit: model
    tuple val(meta), path("bioattn-records/${prefix}.model.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def config_option = config ? "--config ${config}" : ''
    """
    bioattn train translation \\
        ${dataset} \\
        --output ${prefix}.model \\
        ${config_option} \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.model bioattn-records
    touch bioattn-records/${prefix}.model.json
    """
}

// Train a memory network: it answers questions by reading one fact after the other
process BIOATTN_TRAIN_MEMORY {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    input:
    tuple val(meta), path(facts), path(config)

    output:
    tuple val(meta), path("${prefix}.model"), emit: model
    tuple val(meta), path("bioattn-records/${prefix}.model.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def config_option = config ? "--config ${config}" : ''
    """
    bioattn train memory \\
        ${facts} \\
        --output ${prefix}.model \\
        ${config_option} \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.model bioattn-records
    touch bioattn-records/${prefix}.model.json
    """
}

// Train a model that writes promoters for chosen treatments
process BIOATTN_TRAIN_DIFFUSION {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    input:
    tuple val(meta), path(dataset), path(config)

    output:
    tuple val(meta), path("${prefix}.model"), emit: model
    tuple val(meta), path("bioattn-records/${prefix}.model.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def config_option = config ? "--config ${config}" : ''
    """
    bioattn train diffusion \\
        ${dataset} \\
        --output ${prefix}.model \\
        ${config_option} \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.model bioattn-records
    touch bioattn-records/${prefix}.model.json
    """
}

// Predict the response of promoters to treatments
process BIOATTN_RUN_PROMOTER {
    tag "$meta.id"
    label 'process_low'
    label 'process_gpu'

    input:
    tuple val(meta), path(model), path(sequences)

    output:
    tuple val(meta), path("${prefix}.predictions.tsv"), emit: predictions
    tuple val(meta), path("bioattn-records/${prefix}.predictions.tsv.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn run promoter \\
        ${model} \\
        ${sequences} \\
        --output ${prefix}.predictions.tsv \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.predictions.tsv bioattn-records/${prefix}.predictions.tsv.json
    """
}

// Predict contacts, distances and, if the parameters allow it, the structure of a protein from its alignment
process BIOATTN_RUN_EVOFORMER {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    input:
    tuple val(meta), path(alignment), path(model), path(templates)

    output:
    tuple val(meta), path("${prefix}.prediction"), emit: prediction
    tuple val(meta), path("${prefix}.attention.h5"), emit: attention
    tuple val(meta), path("bioattn-records/${prefix}.prediction.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def model_option = model ? "--model ${model}" : ''
    def templates_option = templates ? "--templates ${templates}" : ''
    """
    bioattn run evoformer \\
        ${alignment} \\
        --output ${prefix}.prediction \\
        --attention ${prefix}.attention.h5 \\
        ${model_option} \\
        ${templates_option} \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.prediction bioattn-records
    touch ${prefix}.attention.h5 bioattn-records/${prefix}.prediction.json
    """
}

// Write embeddings, likelihoods, contacts or predictions of sequences by a language model
process BIOATTN_RUN_LANGUAGE {
    tag "$meta.id"
    label 'process_low'
    label 'process_gpu'

    input:
    tuple val(meta), path(model), path(sequences)

    output:
    tuple val(meta), path("${prefix}.scores.tsv"), emit: scores
    tuple val(meta), path("${prefix}.embeddings.h5"), emit: embeddings
    tuple val(meta), path("bioattn-records/${prefix}.scores.tsv.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn run language \\
        ${model} \\
        ${sequences} \\
        --output ${prefix}.scores.tsv \\
        --embeddings ${prefix}.embeddings.h5 \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.scores.tsv ${prefix}.embeddings.h5 bioattn-records/${prefix}.scores.tsv.json
    """
}

// Estimate the evolutionary distances of the sequences of an alignment, and trees of them
process BIOATTN_RUN_PHYLOFORMER {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    input:
    tuple val(meta), path(alignment), path(model)

    output:
    tuple val(meta), path("${prefix}.phylogeny"), emit: phylogeny
    tuple val(meta), path("${prefix}.attention.h5"), emit: attention
    tuple val(meta), path("bioattn-records/${prefix}.phylogeny.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn run phyloformer \\
        ${alignment} \\
        --output ${prefix}.phylogeny \\
        --attention ${prefix}.attention.h5 \\
        --model ${model} \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.phylogeny bioattn-records
    touch ${prefix}.attention.h5 bioattn-records/${prefix}.phylogeny.json
    """
}

// Write outputs for sources: the likeliest (greedy, or by beam search), draws, or scores of given ones
process BIOATTN_RUN_TRANSLATION {
    tag "$meta.id"
    label 'process_low'
    label 'process_gpu'

    input:
    tuple val(meta), path(model), path(sources)

    output:
    tuple val(meta), path("${prefix}.outputs.fa"), emit: outputs
    tuple val(meta), path("bioattn-records/${prefix}.outputs.fa.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn run translation \\
        ${model} \\
        ${sources} \\
        --output ${prefix}.outputs.fa \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.outputs.fa bioattn-records/${prefix}.outputs.fa.json
    """
}

// Predict the values, or the probabilities of classes, of molecules (needs RDKit)
process BIOATTN_RUN_MOLECULE {
    tag "$meta.id"
    label 'process_low'
    label 'process_gpu'

    input:
    tuple val(meta), path(model), path(table)

    output:
    tuple val(meta), path("${prefix}.predictions.tsv"), emit: predictions
    tuple val(meta), path("bioattn-records/${prefix}.predictions.tsv.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn run molecule \\
        ${model} \\
        ${table} \\
        --output ${prefix}.predictions.tsv \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.predictions.tsv bioattn-records/${prefix}.predictions.tsv.json
    """
}

// Answer questions about facts
process BIOATTN_RUN_MEMORY {
    tag "$meta.id"
    label 'process_low'
    label 'process_gpu'

    input:
    tuple val(meta), path(model), path(facts)

    output:
    tuple val(meta), path("${prefix}.answers.tsv"), emit: answers
    tuple val(meta), path("${prefix}.attention.h5"), emit: attention
    tuple val(meta), path("bioattn-records/${prefix}.answers.tsv.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn run memory \\
        ${model} \\
        ${facts} \\
        --output ${prefix}.answers.tsv \\
        --attention ${prefix}.attention.h5 \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.answers.tsv ${prefix}.attention.h5 bioattn-records/${prefix}.answers.tsv.json
    """
}

// Write new promoters for chosen treatments
process BIOATTN_GENERATE_PROMOTERS {
    tag "$meta.id"
    label 'process_low'
    label 'process_gpu'

    input:
    tuple val(meta), path(model)

    output:
    tuple val(meta), path("${prefix}.designs.fa"), emit: designs
    tuple val(meta), path("bioattn-records/${prefix}.designs.fa.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn generate promoters \\
        ${model} \\
        --output ${prefix}.designs.fa \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.designs.fa bioattn-records/${prefix}.designs.fa.json
    """
}

// Write new sequences, drawn from a decoder token by token
process BIOATTN_GENERATE_LANGUAGE {
    tag "$meta.id"
    label 'process_low'
    label 'process_gpu'

    input:
    tuple val(meta), path(model)

    output:
    tuple val(meta), path("${prefix}.generated.fa"), emit: sequences
    tuple val(meta), path("bioattn-records/${prefix}.generated.fa.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn generate language \\
        ${model} \\
        --output ${prefix}.generated.fa \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.generated.fa bioattn-records/${prefix}.generated.fa.json
    """
}

// Write where a model looks, in each promoter for each treatment, sequence or molecule, as HDF5
process BIOATTN_EXPORT_ATTENTION {
    tag "$meta.id"
    label 'process_low'
    label 'process_gpu'

    input:
    tuple val(meta), path(model), path(sequences)

    output:
    tuple val(meta), path("${prefix}.attention.h5"), emit: attention
    tuple val(meta), path("bioattn-records/${prefix}.attention.h5.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn export attention \\
        ${model} \\
        ${sequences} \\
        --output ${prefix}.attention.h5 \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.attention.h5 bioattn-records/${prefix}.attention.h5.json
    """
}

// Write attribution as NumPy archives, or attention and predictions as AnnData (.h5ad), for other programs
process BIOATTN_EXPORT_ARRAYS {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(file)

    output:
    tuple val(meta), path("${prefix}.arrays"), emit: arrays
    tuple val(meta), path("bioattn-records/${prefix}.arrays.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn export arrays \\
        ${file} \\
        --output ${prefix}.arrays \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.arrays bioattn-records
    touch bioattn-records/${prefix}.arrays.json
    """
}

// Compute contacts from a model's attention among the residues of alignments or proteins
process BIOATTN_EXPORT_CONTACTS {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(attention), path(regression)

    output:
    tuple val(meta), path("${prefix}.contacts.tsv"), emit: contacts
    tuple val(meta), path("bioattn-records/${prefix}.contacts.tsv.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def regression_option = regression ? "--regression ${regression}" : ''
    """
    bioattn export contacts \\
        ${attention} \\
        --output ${prefix}.contacts.tsv \\
        ${regression_option} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.contacts.tsv bioattn-records/${prefix}.contacts.tsv.json
    """
}

// Find the motifs that a model attends to, and test them for each treatment
process BIOATTN_EXPORT_MOTIFS {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(files), path(promoters), path(database)

    output:
    tuple val(meta), path("${prefix}.motifs"), emit: motifs
    tuple val(meta), path("bioattn-records/${prefix}.motifs.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def promoters_option = promoters ? "--promoters ${promoters}" : ''
    def database_option = database ? "--database ${database}" : ''
    """
    bioattn export motifs \\
        ${files} \\
        --output ${prefix}.motifs \\
        ${promoters_option} \\
        ${database_option} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.motifs bioattn-records
    touch bioattn-records/${prefix}.motifs.json
    """
}

// Write the parameters of a language model or an MSA/pair model in another form
process BIOATTN_EXPORT_PARAMETERS {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(model)

    output:
    tuple val(meta), path("${prefix}.parameters.npz"), emit: parameters
    tuple val(meta), path("bioattn-records/${prefix}.parameters.npz.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn export parameters \\
        ${model} \\
        --output ${prefix}.parameters.npz \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.parameters.npz bioattn-records/${prefix}.parameters.npz.json
    """
}

// Colour a structure by attention, in place of B-factors
process BIOATTN_EXPORT_STRUCTURE {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(attention), path(structure)

    output:
    tuple val(meta), path("${prefix}.painted.pdb"), emit: structure
    tuple val(meta), path("bioattn-records/${prefix}.painted.pdb.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn export structure \\
        ${attention} \\
        ${structure} \\
        --output ${prefix}.painted.pdb \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.painted.pdb bioattn-records/${prefix}.painted.pdb.json
    """
}

// Write contributions or attention along chromosomes, for IGV, JBrowse and UCSC
process BIOATTN_EXPORT_TRACKS {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(attention)

    output:
    tuple val(meta), path("${prefix}.tracks"), emit: tracks
    tuple val(meta), path("bioattn-records/${prefix}.tracks.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn export tracks \\
        ${attention} \\
        --output ${prefix}.tracks \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.tracks bioattn-records
    touch bioattn-records/${prefix}.tracks.json
    """
}

// Write the contribution of each base of each promoter to the response to each treatment, as HDF5
process BIOATTN_EXPLAIN_ATTRIBUTION {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    input:
    tuple val(meta), path(model), path(promoters)

    output:
    tuple val(meta), path("${prefix}.attribution.h5"), emit: attribution
    tuple val(meta), path("bioattn-records/${prefix}.attribution.h5.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn explain attribution \\
        ${model} \\
        ${promoters} \\
        --output ${prefix}.attribution.h5 \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.attribution.h5 bioattn-records/${prefix}.attribution.h5.json
    """
}

// Rank attention heads by their importance for the predictions of a model
process BIOATTN_EXPLAIN_HEADS {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    input:
    tuple val(meta), path(model), path(dataset)

    output:
    tuple val(meta), path("${prefix}.heads"), emit: heads
    tuple val(meta), path("bioattn-records/${prefix}.heads.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn explain heads \\
        ${model} \\
        ${dataset} \\
        --output ${prefix}.heads \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.heads bioattn-records
    touch bioattn-records/${prefix}.heads.json
    """
}

// Smooth responses over dose or time, and write what each measured treatment weighs along the curve
process BIOATTN_EXPLAIN_RESPONSE_CURVE {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(responses), path(treatment_table)

    output:
    tuple val(meta), path("${prefix}.curves.json"), emit: curves
    tuple val(meta), path("bioattn-records/${prefix}.curves.json.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn explain response-curve \\
        ${responses} \\
        ${treatment_table} \\
        --output ${prefix}.curves.json \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.curves.json bioattn-records/${prefix}.curves.json.json
    """
}

// Score attention and attribution at known motifs, by condition
process BIOATTN_EXPLAIN_MOTIFS {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(results), path(expected)

    output:
    tuple val(meta), path("${prefix}.known-motifs.tsv"), emit: motifs
    tuple val(meta), path("bioattn-records/${prefix}.known-motifs.tsv.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn explain motifs \\
        ${results} \\
        --output ${prefix}.known-motifs.tsv \\
        --expected ${expected} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.known-motifs.tsv bioattn-records/${prefix}.known-motifs.tsv.json
    """
}

// Check whether the attention of a model can be believed, without ground truth
process BIOATTN_EXPLAIN_CHECK {
    tag "$meta.id"
    label 'process_medium'
    label 'process_gpu'

    input:
    tuple val(meta), path(model), path(promoters), path(dataset)

    output:
    tuple val(meta), path("${prefix}.check.json"), emit: check
    tuple val(meta), path("bioattn-records/${prefix}.check.json.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def dataset_option = dataset ? "--dataset ${dataset}" : ''
    """
    bioattn explain check \\
        ${model} \\
        ${promoters} \\
        --output ${prefix}.check.json \\
        ${dataset_option} \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.check.json bioattn-records/${prefix}.check.json.json
    """
}

// Draw a result: its kind chooses the picture, --kind another one
process BIOATTN_PLOT {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(files)

    output:
    tuple val(meta), path("${prefix}.svg"), emit: figure
    tuple val(meta), path("bioattn-records/${prefix}.svg.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn plot \\
        ${files} \\
        --output ${prefix}.svg \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.svg bioattn-records/${prefix}.svg.json
    """
}

// Make one HTML page of results, to search and to send; or write them as sections for MultiQC
process BIOATTN_REPORT {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(inputs), path(annotation)

    output:
    tuple val(meta), path("${prefix}.report.html"), emit: html
    tuple val(meta), path("bioattn-records/${prefix}.report.html.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    def annotation_option = annotation ? "--annotation ${annotation}" : ''
    """
    bioattn report \\
        ${inputs} \\
        --output ${prefix}.report.html \\
        ${annotation_option} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.report.html bioattn-records/${prefix}.report.html.json
    """
}

// Make one HTML page of results, to search and to send; or write them as sections for MultiQC
process BIOATTN_REPORT_MULTIQC {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(inputs)

    output:
    tuple val(meta), path("${prefix}.multiqc"), emit: multiqc
    tuple val(meta), path("bioattn-records/${prefix}.multiqc.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn report \\
        ${inputs} \\
        --output ${prefix}.multiqc \\
        --title ${prefix} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.multiqc bioattn-records
    touch bioattn-records/${prefix}.multiqc.json
    """
}

// Describe files or folders with their main figures
process BIOATTN_INSPECT {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(files)

    output:
    tuple val(meta), path("${prefix}.inspect.json"), emit: description
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn inspect \\
        ${files} \\
        --json \\
        ${args} \\
        > ${prefix}.inspect.json
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.inspect.json
    """
}

// Check files against their schema: exit code 0 when all are valid, 1 when one is not
process BIOATTN_VALIDATE {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(files)

    output:
    tuple val(meta), path("${prefix}.validate.txt"), emit: findings
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn validate \\
        ${files} \\
        ${args} \\
        > ${prefix}.validate.txt
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.validate.txt
    """
}

// Join the parts of a job with --shard into one result
process BIOATTN_MERGE {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(parts)

    output:
    tuple val(meta), path("${prefix}.attention.h5"), emit: attention
    tuple val(meta), path("bioattn-records/${prefix}.attention.h5.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn merge \\
        ${parts} \\
        --output ${prefix}.attention.h5 \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.attention.h5 bioattn-records/${prefix}.attention.h5.json
    """
}

// Make a genome with planted motifs in promoters, and the responses that they cause
process BIOATTN_SIMULATE_PROMOTERS {
    tag "$meta.id"
    label 'process_single'

    input:
    val meta

    output:
    tuple val(meta), path("${prefix}.simulated"), emit: simulation
    tuple val(meta), path("bioattn-records/${prefix}.simulated.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

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
    mkdir ${prefix}.simulated bioattn-records
    touch bioattn-records/${prefix}.simulated.json
    """
}

// Make sequences in which a motif of each comes again, to see whether a model copies in context
process BIOATTN_SIMULATE_LANGUAGE {
    tag "$meta.id"
    label 'process_single'

    input:
    val meta

    output:
    tuple val(meta), path("${prefix}.sequences"), emit: sequences
    tuple val(meta), path("bioattn-records/${prefix}.sequences.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn simulate language \\
        --output ${prefix}.sequences \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.sequences bioattn-records
    touch bioattn-records/${prefix}.sequences.json
    """
}

// Make molecules of which some hold a planted substructure that acts (needs RDKit)
process BIOATTN_SIMULATE_MOLECULES {
    tag "$meta.id"
    label 'process_single'

    input:
    val meta

    output:
    tuple val(meta), path("${prefix}.molecules"), emit: molecules
    tuple val(meta), path("bioattn-records/${prefix}.molecules.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn simulate molecules \\
        --output ${prefix}.molecules \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.molecules bioattn-records
    touch bioattn-records/${prefix}.molecules.json
    """
}

// Make pairs of sequences with known truth and known alignment
process BIOATTN_SIMULATE_TRANSLATION {
    tag "$meta.id"
    label 'process_single'

    input:
    val meta

    output:
    tuple val(meta), path("${prefix}.pairs"), emit: pairs
    tuple val(meta), path("bioattn-records/${prefix}.pairs.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn simulate translation \\
        --output ${prefix}.pairs \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.pairs bioattn-records
    touch bioattn-records/${prefix}.pairs.json
    """
}

// Make alignments of proteins or DNA with their true trees
process BIOATTN_SIMULATE_TREES {
    tag "$meta.id"
    label 'process_single'

    input:
    val meta

    output:
    tuple val(meta), path("${prefix}.trees"), emit: trees
    tuple val(meta), path("bioattn-records/${prefix}.trees.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn simulate trees \\
        --output ${prefix}.trees \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.trees bioattn-records
    touch bioattn-records/${prefix}.trees.json
    """
}

// Make protein families with planted contacts: Potts models sampled along random trees
process BIOATTN_SIMULATE_MSA {
    tag "$meta.id"
    label 'process_single'

    input:
    val meta

    output:
    tuple val(meta), path("${prefix}.families"), emit: families
    tuple val(meta), path("bioattn-records/${prefix}.families.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn simulate msa \\
        --output ${prefix}.families \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir ${prefix}.families bioattn-records
    touch bioattn-records/${prefix}.families.json
    """
}

// Score contributions or attention against planted motifs, for the right treatment and for others
process BIOATTN_SIMULATE_SCORE {
    tag "$meta.id"
    label 'process_single'

    input:
    tuple val(meta), path(attention), path(truth)

    output:
    tuple val(meta), path("${prefix}.scores.json"), emit: scores
    tuple val(meta), path("bioattn-records/${prefix}.scores.json.json"), emit: record
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn simulate score \\
        ${attention} \\
        ${truth} \\
        --output ${prefix}.scores.json \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir bioattn-records
    touch ${prefix}.scores.json bioattn-records/${prefix}.scores.json.json
    """
}

// Examine the machine and the installation: exit code 0 when bioattn can work, 1 when not
process BIOATTN_DOCTOR {
    tag "$meta.id"
    label 'process_single'

    input:
    val meta

    output:
    tuple val(meta), path("${prefix}.doctor.json"), emit: findings
    tuple val("${task.process}"), val('bioattn'), eval("bioattn --version | sed 's/bioattn //'"), topic: versions, emit: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    bioattn doctor \\
        --json \\
        ${args} \\
        > ${prefix}.doctor.json
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch ${prefix}.doctor.json
    """
}
